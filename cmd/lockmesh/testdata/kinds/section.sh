#!/usr/bin/env bash
# The work under the lock: DIR WHO TOKEN. Only one process at a time can make the file "inside", and
# the counter is read and written in two steps.
set -euo pipefail
cd "$1"
(set -C; : >inside) 2>/dev/null || { echo "overlap: $2 $3" >>faults; exit 9; }
n=$(<counter)
sleep 0.001
echo $((n + 1)) >counter
echo "$3 $2" >>order
rm inside
