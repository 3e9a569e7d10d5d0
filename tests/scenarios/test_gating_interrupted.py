"""A gate that is ended before it has measured everything judges nothing, keeps what it has, and goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.plane import Plane, poll, running, serve

from stoker.testing.script.script import Script

GATE = """
[gate.default]
conditions = ["model.context >= 1", "preflight"]
"""


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running(serve("fast", Script(context=4096), slot=None), GATE) as found:
        assert found.admin("switch", serve="fast")[0] == 200
        yield found


def interrupted(plane: Plane, number: int, *more: str) -> tuple[int, str, str]:
    """Ended once the first of its checks is kept, which a condition of the gate would be content with."""
    before = {path: path.stat().st_mtime_ns for path in results(plane)}
    command = plane.begin("gate", "fast", "--unknown-ok", "--json", *more)
    poll(lambda: any(path.stat().st_mtime_ns != before.get(path) for path in results(plane)), "a check is kept")
    command.send_signal(number)
    out, told = command.communicate(30)
    return command.wait(), out, told


def results(plane: Plane) -> list[Path]:
    return sorted((plane.state / "results").glob("[!.]*.json"))


def test_a_part_is_no_verdict_and_the_command_goes_on_with_it(plane: Plane) -> None:
    code, out, told = interrupted(plane, signal.SIGINT)
    assert code == 130
    error = json.loads(out)["error"]
    assert error["code"] == "interrupted"
    assert " checks of the preflight are kept; to go on: stoker gate fast" in error["message"]
    assert error["message"].endswith("--gate default --unknown-ok --resume")
    assert ": model\n" in told
    [kept] = results(plane)
    assert "-preflight-fast-" in str(kept), "no gate was judged"
    code, _, told = interrupted(plane, signal.SIGTERM, "--resume")
    assert (code, f" checks are taken from {kept.stem} (" in told) == (130, True)
    assert ": model\n" not in told
    assert results(plane) == [kept], "it went on with the same one"
    for other in ("--again", "--dry-run"):
        assert plane.run("gate", "fast", "--resume", other).returncode == 2


def test_what_is_to_be_measured_again_is_measured_again_also_after_an_interruption(plane: Plane) -> None:
    """The command that goes on takes nothing that `--again` did not."""
    code, out, _ = interrupted(plane, signal.SIGINT, "--again")
    message = json.loads(out)["error"]["message"]
    assert code == 130
    assert message.startswith("interrupted: --again measures everything once more; to go on: stoker gate fast")
    assert message.endswith("--gate default --unknown-ok --again")
