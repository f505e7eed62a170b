"""A client of the Kubernetes API that lists and watches pods, nodes, Secrets and ConfigMaps, and prints what it sees.

Each event, each begin and end of a list, each failure and each answer is a line of JSON on standard output. For each line on
standard input, the program prints a line with all objects that it knows then. It ends with its standard input.

The program does what the documentation of the library asks of its users: it lists, it watches from the version of the list,
and it lists again after a 410.
"""

import argparse
import json
import os
import sys
import threading
import time
import urllib.parse

import urllib3
from kubernetes import client, config, watch

# How long to pause after a failed request, in seconds.
PAUSE = 0.1

# Guards the output and the objects, so that both change together.
lock = threading.Lock()
held = {}


def print_line(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def describe(kind, item):
    meta = item.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return {"kind": kind, "name": name, "uid": meta.uid, "version": meta.resource_version}


def note_answers(api_client):
    """Prints each request of the client and the head of its answer."""
    pool = api_client.rest_client.pool_manager
    urlopen = pool.urlopen

    def noting(method, url, *arguments, **keywords):
        answer = urlopen(method, url, *arguments, **keywords)
        parts = urllib.parse.urlsplit(url)
        exchange = {
            "path": parts.path,
            "query": parts.query,
            "accept": (keywords.get("headers") or {}).get("Accept", ""),
            "status": answer.status,
            "content_type": answer.headers.get("Content-Type", ""),
        }
        with lock:
            print_line({"exchange": exchange})
        return answer

    pool.urlopen = noting


def list_all(kind, function):
    """Lists the objects of a kind, and returns the version of the list."""
    listed = function()
    with lock:
        print_line({"list": "begins", "kind": kind})
        held[kind] = {}
        for item in listed.items:
            seen = describe(kind, item)
            held[kind][seen["name"]] = seen
            print_line({"type": "ADDED", **seen})
        print_line({"list": "ends", "kind": kind})
    return listed.metadata.resource_version


def take(kind, event):
    seen = describe(kind, event["object"])
    with lock:
        if event["type"] == "DELETED":
            held[kind].pop(seen["name"], None)
        else:
            held[kind][seen["name"]] = seen
        print_line({"type": event["type"], **seen})


def follow(kind, function):
    """Lists and watches for as long as the program runs."""
    version = None
    while True:
        events = watch.Watch()
        try:
            if version is None:
                version = list_all(kind, function)
            for event in events.stream(function, resource_version=version):
                take(kind, event)
        except (client.exceptions.ApiException, urllib3.exceptions.HTTPError) as error:
            with lock:
                print_line({"error": f"{kind}: {type(error).__name__}: {error}"})
            version = events.resource_version or version
            if getattr(error, "status", None) == 410:
                version = None
            else:
                time.sleep(PAUSE)


def follow_or_end(kind, function):
    try:
        follow(kind, function)
    finally:
        # No failure of a thread goes unnoticed: its traceback is on standard error, and the output ends.
        sys.stderr.flush()
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
        os._exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", required=True, help="the kubeconfig of the server")
    arguments = parser.parse_args()
    config.load_kube_config(arguments.kubeconfig)
    api = client.CoreV1Api()
    note_answers(api.api_client)
    for kind, function in {
        "Pod": api.list_pod_for_all_namespaces,
        "Node": api.list_node,
        "Secret": api.list_secret_for_all_namespaces,
        "ConfigMap": api.list_config_map_for_all_namespaces,
    }.items():
        threading.Thread(target=follow_or_end, args=(kind, function), daemon=True).start()
    for _ in sys.stdin:
        with lock:
            print_line({"held": [seen for objects in held.values() for seen in objects.values()]})


if __name__ == "__main__":
    main()
