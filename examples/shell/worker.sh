#!/bin/sh
# A worker: one at a time in the whole mesh.
#
#   LOCKMESH_ADDR=/run/lockmesh/lockmesh.sock ./worker.sh
set -eu

# lockmesh ends the work if the lock is lost, and exits with 79 then.
lockmesh run -w 2s jobs/report -- sh -eu -c '
  echo "working with token $LOCKMESH_TOKEN"
  for step in 0 1 2; do
    sleep 0.1 # the work
    echo "step $step"
  done
' || case $? in
75) echo "another worker is at it" >&2; exit 1 ;;
*) echo "the work has failed" >&2; exit 1 ;;
esac
