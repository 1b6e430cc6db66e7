"""Takes locks with the unchanged client of Python. Arguments: two servers of one mesh, host:port."""
import sys
import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError, ResponseError


def connect(server):
    host, port = server.split(":")
    return redis.Redis(host=host, port=int(port))


def fails(kind, text, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except kind as err:
        assert text in str(err), str(err)
        return
    raise AssertionError("no error")


one, two = connect(sys.argv[1]), connect(sys.argv[2])
assert one.ping()

lock = one.lock("python", timeout=9)
assert lock.acquire()
assert lock.locked() and lock.owned()
other = two.lock("python", timeout=9, sleep=0.01)
assert not other.acquire(blocking=False)
assert not other.acquire(blocking_timeout=0.2)
assert other.locked() and not other.owned()
time.sleep(2)
assert lock.extend(1)  # 1 s more than the 7 s that are left
assert 7 < one.pttl("python") / 1000 <= 8.1, one.pttl("python")
assert lock.extend(9, replace_ttl=True)
assert lock.reacquire()
assert 8.5 < one.pttl("python") / 1000 <= 9
fails(ResponseError, "longer than MaxTTL", lock.extend, 5)
lock.release()
fails(LockError, "unlocked lock", lock.release)

with two.lock("python", timeout=5) as short:
    fails(ResponseError, "longer than the 5000 ms with which the key was set", short.extend, 2)
    assert two.get("python") is not None
assert one.get("python") is None

# A waiter gets the lock when it is released.
lock = one.lock("python", timeout=9, thread_local=False)
assert lock.acquire()
timer = threading.Timer(0.3, lock.release)
timer.start()
assert other.acquire(blocking_timeout=30)
timer.join()
other.release()

# A lock whose time is over isn't released.
short = one.lock("python", timeout=0.3)
assert short.acquire()
time.sleep(0.6)
fails(LockNotOwnedError, "no longer owned", short.release)
fails(ResponseError, "without an end", one.lock("python").acquire)
fails(ResponseError, "longer than MaxTTL", one.lock("python", timeout=60).acquire)
assert one.exists("python") == 0
print("ok")
