"""Stands in for `systemctl` and `journalctl`: it reads real unit files and starts real processes.

Called as `systemctl_stand_in.py DIRECTORY PROGRAM ARGUMENTS...`. DIRECTORY holds `calls` (one JSON list per call),
`faults` (verb to a fault), and per unit a state and a journal. Units are looked for in DIRECTORY/units.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "systemd"))
import systemd_syntax as syntax

HERE, PROGRAM, *ARGUMENTS = sys.argv[1:]
POLL_INTERVAL = 0.005
NOBODY = {"active": "inactive", "pid": 0, "code": None}


def at(name):
    return os.path.join(HERE, name)


def state(unit):
    try:
        with open(at(f"{unit}.state")) as file:
            return json.load(file)
    except FileNotFoundError:
        return dict(NOBODY)


def write(unit, **values):
    draft = at(f"{unit}.{os.getpid()}")
    with open(draft, "w") as file:
        json.dump({**state(unit), **values}, file)
    os.replace(draft, at(f"{unit}.state"))


def unit_text(unit):
    with open(at(f"units/{unit}")) as file:
        return file.read()


def load_state(unit):
    path = at(f"units/{unit}")
    if os.path.islink(path) and os.readlink(path) == "/dev/null":
        return "masked"
    return faults().get("load", "loaded") if os.path.exists(path) else "not-found"


def faults():
    try:
        with open(at("faults")) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def fail(text, code=1):
    print(text, file=sys.stderr)
    sys.exit(code)


def wait_until(condition):
    while not condition():
        time.sleep(POLL_INTERVAL)


def start(unit):
    if load_state(unit) != "loaded":
        fail(f"Failed to start {unit}: Unit {unit} {load_state(unit)}.", 5)
    if state(unit)["active"] == "active":
        return
    write(unit, active="activating", pid=0, code=None, stopping=False)
    me = [sys.executable, "-S", "-E", os.path.abspath(__file__), HERE, "babysit", unit]
    nothing = subprocess.DEVNULL
    subprocess.Popen(me, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
    wait_until(lambda: state(unit)["active"] != "activating")
    if state(unit)["code"] == "exec":
        fail(f"Job for {unit} failed because the control process exited with error code.")
    if faults().get("start") == "until it ends":
        wait_until(lambda: state(unit)["active"] != "active")


def babysit(unit):
    text = unit_text(unit)
    environment = {"PATH": os.environ["PATH"]}
    path = syntax.setting(text, "Service", "EnvironmentFile")
    if path is not None:
        with open(path) as file:
            environment.update(syntax.read_environment(file.read()))
    [line] = [value for key, value in syntax.read_unit(text)["Service"] if key == "ExecStart"]
    with open(at(f"{unit}.journal"), "a") as journal:
        try:
            child = subprocess.Popen(
                syntax.command(line, environment),
                env=environment,
                cwd=syntax.setting(text, "Service", "WorkingDirectory"),
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        except OSError:
            write(unit, active="failed", code="exec")
            return
    write(unit, active="active", pid=child.pid)
    code = child.wait()
    is_clean = code == 0 or (state(unit)["stopping"] and code == -signal.SIGTERM)
    write(unit, active="inactive" if is_clean else "failed", pid=0, code=code)


def send(unit, number):
    pid = state(unit)["pid"]
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


def stop(unit):
    if state(unit)["active"] in ("inactive", "failed"):
        return
    write(unit, stopping=True)
    send(unit, signal.SIGTERM)
    wait_until(lambda: state(unit)["active"] in ("inactive", "failed"))


def show(unit):
    seen, load = state(unit), load_state(unit)
    code = seen["code"] if isinstance(seen["code"], int) else None
    for key, value in {
        "LoadState": load,
        "ActiveState": seen["active"],
        "MainPID": seen["pid"],
        "ExecMainCode": 0 if code is None else 1 if code >= 0 else 2,
        "ExecMainStatus": abs(code or 0),
        "FragmentPath": at(f"units/{unit}") if load != "not-found" else "",
        "NeedDaemonReload": faults().get("reload", "no"),
    }.items():
        print(f"{key}={value}")


def journal(unit):
    try:
        with open(at(f"{unit}.journal")) as file:
            print(file.read(), end="")
    except FileNotFoundError:
        pass


def main():
    if PROGRAM == "babysit":
        babysit(ARGUMENTS[0])
        return
    with open(at("calls"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps([PROGRAM, *ARGUMENTS]) + "\n")
    words = [word for word in ARGUMENTS if not word.startswith("--")]
    if PROGRAM == "journalctl":
        journal(words[words.index("-u") + 1])
        return
    verb, unit = words[0], words[-1]
    fault = faults().get(verb)
    if fault == "hang":
        signal.pause()
    elif fault is not None and fault != "until it ends":
        fail(fault)
    if verb == "restart":
        stop(unit)
        start(unit)
    elif verb == "kill":
        send(unit, signal.SIGKILL)
    elif verb == "reset-failed":
        write(unit, active="inactive")
    elif verb in ("start", "stop", "show"):
        {"start": start, "stop": stop, "show": show}[verb](unit)


main()
