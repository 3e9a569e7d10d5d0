"""Runs under a systemd of its own (see test_systemd_real.py): DIRECTORY. Prints what it found, as one JSON document."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stoker.domain.access import Paths
from stoker.domain.serve import Driver, Serve
from stoker.fleet.drivers.systemd import SystemdDriver
from stoker.fleet.process.identity import Keys, KeySigner
from stoker.fleet.supervision.serve_registry import FleetContext
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.systemd.units import InstallSite
from stoker_setup import service_install as install

HERE = Path(sys.argv[1])
ENGINE = Path(__file__).parents[1] / "scripted_engine.py"
SAID = 'a b $HOME ${HOME} $$ 100% %h say "hi" it\'s back\\slash\\ ; # {{ x }} é'
UNIT = "stoker-serve-a.service"


class RealClock:
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


def front_door():
    """A program that starts a serve of its own, as the process driver does, and runs until it is told to end."""
    path = HERE / "front door"
    path.write_text(
        f'#!/bin/sh\n[ -e "{HERE}/child" ] || {{ setsid sleep 600 & echo $! > "{HERE}/child"; }}\nsleep 600\n'
    )
    path.chmod(0o755)
    return InstallSite(
        str(HERE / "stoker.toml"), str(HERE / "state"), (str(path),), "root", environment={"PATH": os.environ["PATH"]}
    )


def is_active(unit):
    return subprocess.run(["systemctl", "is-active", unit], capture_output=True, text=True).stdout.strip()


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


async def wait_for(condition):
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.02)


async def main():
    found = {}
    cmd = (sys.executable, "-S", "-E", str(ENGINE), "--port", "{port}", "--key", "{key}", "--say", SAID)
    serve = Serve(
        name="a", engine="openai", driver=Driver.SYSTEMD, unit=UNIT, cmd=cmd, port=8191, directory=str(HERE),
        env={"ODD": SAID}, ready_timeout=15.0, stop_grace=5.0,
    )  # fmt: skip
    changes = install.plan(front_door(), [serve], Path("/"), False, True)
    install.carry_out(changes, install.command)
    await wait_for((HERE / "child").exists)
    child = int((HERE / "child").read_text())
    install.command(["systemctl", "restart", "stoker.service"])
    found["the front door's own serve outlives its restart"] = is_there(child)

    signer = KeySigner(lambda: bytes(32))
    paths = Paths(str(HERE / "state"), str(HERE / "logs"), str(HERE))
    exits, exited = [], asyncio.Event()

    def on_exit(name, detail):
        exits.append(detail)
        exited.set()

    def supervisor():
        log = logging.getLogger("real")
        drivers = {Driver.SYSTEMD: SystemdDriver(HERE / "state", Keys(signer), log)}
        return Supervisor(FleetContext(paths, RealClock(), log, lambda: bytes(32), drivers=drivers))

    fleet = supervisor()
    found["problems"] = await fleet.full_check(serve)
    running = await fleet.start(serve, on_exit)
    arguments = Path(f"/proc/{running.pid}/cmdline").read_text().split("\0")
    found["arguments arrive"] = arguments[-2] == SAID and arguments[7] == running.target.key
    environment = dict(
        v.split("=", 1) for v in Path(f"/proc/{running.pid}/environ").read_text().split("\0") if "=" in v
    )
    found["environment arrives"] = environment["ODD"] == SAID
    await fleet.close(True)
    fleet = supervisor()
    found["adopted"] = [one.pid for one in await fleet.adopt([serve], on_exit)] == [running.pid]
    os.kill(running.pid, signal.SIGKILL)
    await asyncio.wait_for(exited.wait(), 15)
    found["exit"] = exits[0]
    await wait_for(lambda: not fleet.statistics())
    found["after its end"] = is_active(UNIT)
    await fleet.start(serve, on_exit)
    await fleet.stop("a", 5)
    found["stopped"] = is_active(UNIT)
    await fleet.close(False)
    install.carry_out(install.plan_removal(front_door(), Path("/"), False), install.command)
    found["removed"] = [path.name for path in units_left()]
    print(json.dumps(found))


def units_left():
    return sorted(install.SYSTEM.glob("stoker*"))


asyncio.run(main())
