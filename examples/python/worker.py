"""A worker: one at a time in the whole mesh.

    python3 worker.py /run/lockmesh/lockmesh.sock
"""

import sys

from lockmesh import Held, Lost, hold

try:
    with hold("jobs/report", sys.argv[1], wait="2s", value="the Python worker") as lock:
        print("working with token", lock.token, flush=True)
        for step in range(3):
            lock.wait(0.1)  # the work; it ends here if the lock is lost
            print("step", step, flush=True)
except Held as error:
    sys.exit("another worker is at it: %s" % error)
except Lost as error:
    sys.exit("the lock was lost: %s" % error)
