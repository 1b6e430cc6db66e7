"""Takes a lock over HTTP so many times: ADDRESS KEY ROUNDS DIR. LOCKMESH_ADMIN_TOKEN has the token.

The standard library alone. The lock is one for a time, as PUT /v1/locks/{key} gives it.
"""
import json
import os
import sys
import time
import urllib.request

address, key, rounds, where = sys.argv[1:]


def ask(method, path):
    headers = {"Authorization": "Bearer " + os.environ["LOCKMESH_ADMIN_TOKEN"]}
    request = urllib.request.Request("http://" + address + path, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def section(token):
    """The work under the lock, as in section.sh."""
    os.close(os.open("inside", os.O_CREAT | os.O_EXCL))
    with open("counter") as f:
        n = int(f.read())
    time.sleep(0.001)
    with open("counter", "w") as f:
        f.write("%d\n" % (n + 1))
    with open("order", "a") as f:
        f.write("%d python\n" % token)
    os.remove("inside")


os.chdir(where)
for _ in range(int(rounds)):
    lease = ask("PUT", "/v1/locks/%s?ttl=9s&wait=100s" % key)
    section(lease["token"])
    ask("DELETE", "/v1/leases/" + lease["id"])
