"""Locks of a lockmesh node, over its admin socket: the standard library alone, Python 3.8 or later."""

import calendar
import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.parse


class Held(Exception):
    """The lock is held by another process, or the wait is over."""


class Lost(Exception):
    """The lock was lost while it was in use: stop the protected work."""


class _Connection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Lock:
    """A lock that is held. Pass the token to whatever the work writes to."""

    def __init__(self, line):
        self.key, self.token, self.node = line["key"], line["token"], line["node"]
        self._lost, self._why = threading.Event(), None
        self._held(line)

    def check(self):
        """Raises Lost if the lock is lost. Call it before each step that others could see. It reads
        the clocks: after a pause of the machine the node's lines may tell nothing yet."""
        if time.monotonic() >= self._ends[0] or time.time() >= self._ends[1]:
            self._lose("the node hasn't said in time that the lock is held")
        if self._lost.is_set():
            raise Lost(self._why)

    def wait(self, seconds):
        """Sleeps, and raises Lost as soon as the lock is lost."""
        self._lost.wait(seconds)
        self.check()

    def _held(self, line):
        """Notes how long the lock is held: by the time that was left when the node wrote the line,
        and by the clock of the machine, since the line may have been read late."""
        second, fraction = line["deadline"][:19], line["deadline"][19:].rstrip("Z")
        deadline = calendar.timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) + float(fraction or 0)
        self._ends = time.monotonic() + line["left_ms"] / 1000, deadline

    def _lose(self, why):
        if not self._lost.is_set():
            self._why = why
            self._lost.set()


@contextlib.contextmanager
def hold(key, socket_path="/run/lockmesh/lockmesh.sock", wait="24h", **options):
    """Holds a lock for the length of a with block. Options are those of PUT /v1/hold/{key}:
    ttl="5s", mode="shared", permits=3, value="shown to others"."""
    query = urllib.parse.urlencode({"wait": wait, **options})
    conn = _Connection(socket_path)
    try:
        conn.request("PUT", "/v1/hold/%s?%s" % (urllib.parse.quote(key, safe=""), query))
        answer = conn.getresponse()
        line = json.loads(answer.readline())
        if "error" in line:
            raise (Held if line["error"] == "held" else RuntimeError)(line["message"])
        lock = Lock(line)
        # A line comes every few seconds. If none comes until the lease is over, the lock is lost.
        conn.sock.settimeout(line["left_ms"] / 1000)
        reader = threading.Thread(target=_read, args=(conn.sock, answer, lock), daemon=True)
        reader.start()
        try:
            yield lock
            lock.check()
        finally:
            with contextlib.suppress(OSError):  # the node has closed the connection already
                conn.sock.shutdown(socket.SHUT_RDWR)  # the node releases the lock
            reader.join()
    finally:
        conn.close()


def _read(sock, answer, lock):
    why = "the connection to the node has ended"
    try:
        for text in answer:
            line = json.loads(text)
            if line["event"] == "end":
                why = line["failure"]["message"]
                break
            lock._held(line)
            sock.settimeout(line["left_ms"] / 1000)
    except socket.timeout:
        why = "the node hasn't said in time that the lock is held"
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = "%s: %s" % (why, error)
    lock._lose(why)
