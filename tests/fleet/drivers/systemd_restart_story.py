"""Runs under a systemd of its own (see test_systemd_real.py): DIRECTORY. Restarts a real front door under streams.

Prints what it found, as one JSON document.
"""

import http.client
import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from stoker.fleet.systemd.units import InstallSite
from stoker_lab.testing.script.script import Script
from stoker_setup import service_install as install

HERE = Path(sys.argv[1])
CONFIG = HERE / "stoker.toml"
RESTARTS = 5
CLIENTS = 8
SITE = InstallSite(
    str(CONFIG), str(HERE / "state"), (str(Path(sys.executable).with_name("stoker")),), "root", str(HERE),
    {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}, port=8123,
)  # fmt: skip


def configure(port):
    command = json.dumps(Script(id="a").command("{port}"))
    CONFIG.write_text(
        f'[front_door]\nport = {port}\n[paths]\nstate = "state"\n[[serve]]\nname = "a"\nengine = "openai"\n'
        f"max_active = 64\ncmd = {command}\n"
    )


def stream(port):
    """The text of one streamed answer, over a connection of its own. Raises OSError if it is refused or cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    message = {"role": "user", "content": "script: gap=0.01 tokens=40"}
    body = json.dumps({"model": "a", "stream": True, "messages": [message]})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    text = connection.getresponse().read().decode()
    connection.close()
    if not text.endswith("data: [DONE]\n\n"):
        raise OSError(text[-200:])
    return text.count('"content"')


def main():
    problems: list[str] = []
    found: dict[str, object] = {"problems": problems}
    configure(8123)
    install.carry_out(install.plan(SITE, [], Path("/"), False, True), install.command)
    stream(8123)
    done, lengths = threading.Event(), []

    def client():
        while not done.is_set():
            try:
                lengths.append(stream(8123))
            except (OSError, http.client.HTTPException) as error:
                problems.append(repr(error))

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for _ in range(RESTARTS):
        served = len(lengths)
        while len(lengths) < served + CLIENTS:  # `systemctl restart` returns before the front door listens
            time.sleep(0.05)
        install.command(["systemctl", "restart", "stoker.service"])
    done.set()
    for thread in clients:
        thread.join()
    found["every client was served"] = len(lengths) >= 2 * CLIENTS and len(set(lengths)) == 1

    configure(8124)
    moved = replace(SITE, port=8124)
    install.carry_out(install.plan(moved, [], Path("/"), False, True), install.command)
    found["it listens at its new address"] = stream(8124) == lengths[0]
    install.command(["systemctl", "stop", "stoker.socket", "stoker.service"])
    try:
        stream(8124)
        found["after the stop"] = "served"
    except ConnectionRefusedError:
        found["after the stop"] = "refused"
    install.carry_out(install.plan_removal(moved, Path("/"), False), install.command)
    found["removed"] = [path.name for path in sorted(install.SYSTEM.glob("stoker*"))]
    print(json.dumps(found))


main()
