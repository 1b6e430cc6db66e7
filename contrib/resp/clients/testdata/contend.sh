#!/usr/bin/env bash
# Takes a lock so many times, and notes each time it held the lock: SERVER KEY ROUNDS FILE.
set -euo pipefail
server=$1 key=$2 rounds=$3 file=$4
redis() { redis-cli -h "${server%:*}" -p "${server#*:}" "$@"; }
release='if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
for ((i = 0; i < rounds; i++)); do
  value=shell-$$-$i
  until [ "$(redis SET "$key" "$value" NX PX 9000)" = OK ]; do sleep 0.002; done
  token=$(redis LOCKMESH.TOKEN "$key" "$value")
  echo "begin shell $token" >>"$file"
  echo "end shell $token" >>"$file"
  [ "$(redis EVAL "$release" 1 "$key" "$value")" = 1 ]
done
