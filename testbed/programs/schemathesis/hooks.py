"""What must hold of each answer of larder, and how long a watch lasts."""

import schemathesis

# Not known yet, and not reached in time.
ALLOWED = {503, 504}


@schemathesis.check
def errors_are_a_status(context, response, case):
    code = response.status_code
    if code < 400:
        return
    if code >= 500 and code not in ALLOWED:
        raise AssertionError(f"{code}: {response.text}")
    if case.method.upper() == "HEAD":
        return
    status = response.json()
    if status.get("kind") != "Status" or status.get("code") != code or not status.get("message"):
        raise AssertionError(f"{code} without a Status: {response.text}")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Ends watches soon: any value but these two asks for one."""
    query = case.query or {}
    if str(query.get("watch", "false")).lower() not in ("0", "false"):
        case.query = {**query, "timeoutSeconds": 1}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Asks for objects that there are, every other time."""
    if path_parameters and len(str(path_parameters.get("namespace", " "))) % 2 == 0:
        return {key: {"namespace": "shop", "name": "web"}.get(key, value) for key, value in path_parameters.items()}
    return path_parameters
