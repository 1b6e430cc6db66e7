"""Takes a lock so many times, and notes each time it held the lock: SERVER KEY ROUNDS FILE."""
import os
import sys

import redis

server, key, rounds, name = sys.argv[1:]
host, port = server.split(":")
client = redis.Redis(host=host, port=int(port))
log = os.open(name, os.O_WRONLY | os.O_APPEND)
for _ in range(int(rounds)):
    lock = client.lock(key, timeout=9, sleep=0.002)
    assert lock.acquire()
    token = client.execute_command("LOCKMESH.TOKEN", key, lock.local.token)
    os.write(log, b"begin python %d\n" % token)
    os.write(log, b"end python %d\n" % token)
    lock.release()
