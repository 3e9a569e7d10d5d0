"""One description of the machine is in every result, and it names nobody."""

from __future__ import annotations

import functools
import getpass
import json
import platform
from pathlib import Path

import pytest

from stoker.cli.machine.discover import Gpu
from stoker.domain.run import Outcome, RunKind, Subject
from stoker_lab.artifacts.machine import machine
from stoker_lab.commands import save_run as kept
from stoker_lab.commands import this_machine


def test_what_was_not_looked_for_is_unknown_and_not_absent() -> None:
    assert machine()["gpus"] is None
    assert machine([])["gpus"] == []


def test_nothing_in_it_names_a_person_a_host_or_a_folder() -> None:
    said = json.dumps(machine())
    for name in (platform.node(), str(Path.home())):
        assert name not in said
    assert f'"{getpass.getuser()}"' not in said


def test_every_kind_of_measurement_describes_it_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.cli.machine.discover.gpus", lambda: [Gpu(0, "u", "Big", 80 * 2**30, "nvidia")])
    monkeypatch.setattr(this_machine, "facts", functools.cache(this_machine.facts.__wrapped__))
    run = kept.build_run(RunKind.SOAK, Subject("a", "a", ""), 0.0, Outcome.PASSED, [], {}, {}, None)
    assert {name: json.loads(bytes(value)) for name, value in run.machine.items()} == this_machine.facts()
    assert this_machine.facts()["gpus"] == ["Big, 80 GiB"]
