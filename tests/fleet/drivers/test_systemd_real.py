"""The systemd driver and the units over a real systemd: the first process of namespaces of its own.

It mounts its own /run and /etc/systemd/system and leaves the machine alone, but it needs root and makes control groups,
so it runs only when it is asked to: STOKER_REAL_SYSTEMD=1.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SYSTEMD = Path("/lib/systemd/systemd")
STORY = Path(__file__).with_name("systemd_real_story.py")
RESTART_STORY = Path(__file__).with_name("systemd_restart_story.py")
REPOSITORY = Path(__file__).parents[3]
BOOT = f"""
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/systemd/system
target=/etc/systemd/system/story.target
printf '[Unit]\\nDefaultDependencies=no\\nWants=dbus.socket systemd-journald.service\\n' > $target
for unit in systemd-udevd systemd-logind systemd-remount-fs systemd-sysctl systemd-modules-load systemd-random-seed \\
  systemd-tmpfiles-setup systemd-firstboot systemd-machine-id-commit systemd-sysusers; do
  ln -s /dev/null /etc/systemd/system/$unit.service
done
for unit in dev-hugepages dev-mqueue sys-kernel-debug sys-kernel-tracing sys-kernel-config sys-fs-fuse-connections; do
  ln -s /dev/null /etc/systemd/system/$unit.mount
done
ip link set lo up
export container=other
exec {SYSTEMD} --system --unit=story.target --log-target=console --show-status=0
"""

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("STOKER_REAL_SYSTEMD"), reason="boots a systemd of its own: set STOKER_REAL_SYSTEMD=1"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of one's own need root"),
    pytest.mark.skipif(
        not (SYSTEMD.exists() and shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")),
        reason="needs systemd, util-linux and iproute2: apt-get install systemd util-linux iproute2",
    ),
]


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[list[str]]:
    """The command prefix that runs something under that systemd."""
    kinds = ["-m", "-p", "-u", "-i", "-n", "-C"]
    with (tmp_path / "boot.log").open("w") as log:
        outer = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--mount-proc", "--kill-child", "sh", "-c", BOOT],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    prefix: list[str] = []
    try:
        limit = time.monotonic() + 20
        while True:
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            prefix = ["nsenter", "-t", children[0], *kinds, "--"] if children else []
            if (
                prefix
                and b"running"
                in subprocess.run([*prefix, "systemctl", "is-system-running"], capture_output=True).stdout
            ):
                break
            assert time.monotonic() < limit, (tmp_path / "boot.log").read_text()
            time.sleep(0.1)
        yield prefix
    finally:
        if prefix:
            os.kill(int(prefix[2]), signal.SIGKILL)  # and with it everything in its namespaces
        else:
            outer.kill()
        outer.wait()


def test_on_a_real_systemd_units_start_prove_die_stop_and_outlive_the_front_door(
    inside: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "st oker"
    place.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{REPOSITORY / 'src'}"}
    command = [*inside, sys.executable, str(STORY), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=50)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    exit = found.pop("exit")
    assert "was ended by SIGKILL" in exit
    assert found == {
        "the front door's own serve outlives its restart": True,
        "problems": [],
        "arguments arrive": True,
        "environment arrives": True,
        "adopted": True,
        "after its end": "inactive",
        "stopped": "inactive",
        "removed": [],
    }


def test_on_a_real_systemd_a_restart_of_the_front_door_refuses_and_cuts_nothing(
    inside: list[str], tmp_path: Path
) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{REPOSITORY / 'src'}"}
    command = [*inside, sys.executable, str(RESTART_STORY), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "problems": [],
        "every client was served": True,
        "it listens at its new address": True,
        "after the stop": "refused",
        "removed": [],
    }
