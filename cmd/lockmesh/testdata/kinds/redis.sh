#!/usr/bin/env bash
# Takes a lock by redis-cli so many times: HOST PORT KEY ROUNDS DIR. REDISCLI_AUTH has the password.
set -euo pipefail
host=$1 port=$2 key=$3 rounds=$4 dir=$5
redis() { redis-cli --no-auth-warning -h "$host" -p "$port" "$@"; }
release='if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
for ((i = 0; i < rounds; i++)); do
  value=redis-$$-$i
  until [ "$(redis SET "$key" "$value" NX PX 9000)" = OK ]; do sleep 0.005; done
  token=$(redis LOCKMESH.TOKEN "$key" "$value")
  bash "$(dirname "$0")/section.sh" "$dir" redis "$token"
  [ "$(redis EVAL "$release" 1 "$key" "$value")" = 1 ]
done
