"""A gate or a bootstrap that is ended before it has measured everything judges nothing, and says what it keeps and how
it goes on.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.plane import MODELS, Plane, poll, running, serve

from stoker_lab.testing.script.script import Script

GATE = """
[gate.default]
conditions = ["model.context >= 1", "preflight"]

[router]

[[tier]]
name = "unknown"
serve = "fast"

[[tier]]
name = "known"
serve = "spark"
"""


@pytest.fixture
def plane() -> Iterator[Plane]:
    spark = serve("spark", Script(), slot=None, engine="llama.cpp", model=str(MODELS / "spark.gguf"))
    with running(serve("fast", Script(context=4096), slot=None), spark, GATE) as found:
        assert found.admin("switch", serve="fast")[0] == 200
        yield found


def interrupted(plane: Plane, number: int, *more: str) -> tuple[int, str, str]:
    """Ended once the first of its checks is kept, which a condition of the gate would be content with."""
    before = {path: path.stat().st_mtime_ns for path in results(plane)}
    command = plane.begin("gate", "fast", "--json", *more)
    poll(lambda: any(path.stat().st_mtime_ns != before.get(path) for path in results(plane)), "a check is kept")
    command.send_signal(number)
    out, told = command.communicate(30)
    return command.wait(), out, told


def results(plane: Plane) -> list[Path]:
    return sorted((plane.state / "results").glob("[!.]*.json"))


def test_a_part_is_no_verdict_and_the_command_goes_on_with_it(plane: Plane) -> None:
    code, out, told = interrupted(plane, signal.SIGINT, "--unknown-ok")
    assert code == 130
    error = json.loads(out)["error"]
    assert error["code"] == "interrupted"
    assert " checks of the preflight are kept; to go on: stoker gate fast" in error["message"]
    assert error["message"].endswith("--gate default --unknown-ok --resume")
    assert ": model\n" in told
    [kept] = results(plane)
    assert "-preflight-fast-" in str(kept), "no gate was judged"
    code, _, told = interrupted(plane, signal.SIGTERM, "--unknown-ok", "--resume")
    assert (code, f" checks are taken from {kept.stem} (" in told) == (130, True)
    assert ": model\n" not in told
    assert results(plane) == [kept], "it went on with the same one"
    for other in ("--again", "--dry-run"):
        assert plane.run("gate", "fast", "--resume", other).returncode == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--unknown-ok", "--again"], "--again measures everything once more"),
        ([], "nothing of it counts later, because it is not known which model fast runs (model, "),
    ],
    ids=["again", "unknown"],
)
def test_where_nothing_counts_later_that_is_said_and_the_same_command_begins_anew(
    plane: Plane, more: list[str], why: str
) -> None:
    code, out, _ = interrupted(plane, signal.SIGINT, *more)
    message = json.loads(out)["error"]["message"]
    assert code == 130
    assert message.startswith(f"interrupted: {why}")
    assert message.endswith(" ".join(["--gate default", *more]))


@pytest.mark.parametrize(
    ("tier", "name", "kept"),
    [
        ("known", "spark", "the answers so far are kept"),
        ("unknown", "fast", "nothing of it counts later, because it is not known which model fast runs (model, "),
    ],
)
def test_answers_to_the_suites_go_on_if_it_is_known_whose_they_are(
    plane: Plane, tier: str, name: str, kept: str
) -> None:
    def end(at: int) -> str:
        """When it asks one question more than `at`: what it says."""
        command = plane.begin("eval", "bootstrap", tier, "--class", "chat")
        poll(lambda: len(plane.received(name, "/v1/chat/completions")) > at, "it is asked")
        command.send_signal(signal.SIGINT)
        told = command.communicate(30)[1]
        assert command.wait() == 130, told
        return told

    assert plane.admin("switch", serve=name)[0] == 200
    plane.scripted(name, first_event_after=0.2)
    told = end(1)
    assert f"interrupted: {kept}" in told
    assert "; to go on: stoker eval bootstrap" in told
    told = end(2)
    assert (" kept since " in told) == (tier == "known"), told
