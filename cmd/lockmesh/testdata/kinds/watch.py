"""Reads server-sent events of a watch until a key is granted and released: ADDRESS PREFIX KEY.

The standard library alone. LOCKMESH_ADMIN_TOKEN has the token.
"""
import json
import os
import sys
import urllib.request

address, prefix, key = sys.argv[1:]
headers = {"Authorization": "Bearer " + os.environ["LOCKMESH_ADMIN_TOKEN"]}
request = urllib.request.Request("http://%s/v1/watch?prefix=%s" % (address, prefix), headers=headers)
with urllib.request.urlopen(request, timeout=60) as stream:
    for line in stream:
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line[len(b"data: "):])
        print(event["kind"], event.get("key", ""), flush=True)
        if event["kind"] == "released" and event["key"] == key:
            break
