"""A tier breaks in the middle: its calls fail, its preflight fails, and it serves that class no more."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from tests.scenarios.plane import Plane, llama, poll, running, serve

from stoker_lab.testing.script.script import Script

ONE = """
[[tier]]
name = "cheap"
serve = "a"
"""
TIERS = f"""{ONE}
[[tier]]
name = "dear"
serve = "b"
cost = {{ input = 3.0, output = 15.0 }}
"""
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {
    "at": {"type": "string"}}, "required": ["at"]}}}]  # fmt: skip
RIGHT, WRONG = '{"at": "it"}', '{"on": "it"}'


@pytest.fixture
def plane() -> Iterator[Plane]:
    local = serve("a", Script(), slot=None, model="./weights", engine="llama.cpp", served_name="a")
    cloud = serve("b", Script(), slot=None, translation={"cloud": True})
    with running(local, cloud, TIERS, started=False) as plane:
        for name in ("model.gguf", "chat_template.jinja"):  # so that its fingerprint can be known
            (plane.directory / "weights" / name).parent.mkdir(exist_ok=True)
            (plane.directory / "weights" / name).write_text(name)
        plane.start()
        for name in "ab":
            assert plane.admin("switch", serve=name)[0] == 200
            calls(plane, name, RIGHT)
        poll(lambda: looked_at(plane), "cheap was looked at")
        yield plane


def calls(plane: Plane, name: str, arguments: str) -> None:
    """From now on that serve answers with this call."""
    call = {"type": "call", "name": "look", "arguments": arguments}
    plane.scripted(name, answers=[{"blocks": [call]}])


def looked_at(plane: Plane) -> bool:
    return any(one["tier"] == "cheap" and one["known"] for one in plane.status()["routing"]["tiers"])


def said(plane: Plane, *words: str) -> str:
    done = plane.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def measured(plane: Plane, at: float) -> None:
    """`cheap` was good at calls, as it runs now."""
    found = plane.state / "fingerprints.json"
    poll(found.exists, lambda: f"{found} is written")
    mark = json.loads(found.read_bytes())["a"]
    row = {"tier": "cheap", "task_class": "tool-use", "identity": mark["identity"], "execution": mark["execution"],
           "n": 27, "passed": 27, "verdict": "allow", "source": "bootstrap", "at": at}  # fmt: skip
    (plane.state / "profile.json").write_text(json.dumps({"version": 1, "rows": [row]}))
    assert plane.admin("reload")[0] == 200


def asked(plane: Plane) -> dict[str, Any]:
    """What became of one request."""
    before = {one["id"] for one in plane.decisions(3)}
    turns = [{"role": "user", "content": "look at it"}]
    document = {"model": "auto:tool-use", "messages": turns, "tools": TOOLS}
    status, answer = plane.ask("POST", "/v1/chat/completions", document)
    assert status == 200, answer
    poll(lambda: {one["id"] for one in plane.decisions(3)} - before, "the decision is kept")
    return plane.decisions(1)[0]


def events(plane: Plane, kind: str) -> list[str]:
    return [one["text"] for one in plane.status()["events"] if one["kind"] == kind]


def test_a_tier_whose_calls_break_in_the_middle_is_demoted_over_a_restart_until_it_is_measured_again(
    plane: Plane,
) -> None:
    measured(plane, at=1.0)
    first = asked(plane)["routed"]
    assert (first["tier"], first["verdict"], first["verify"]) == ("cheap", "allow", "observe")

    calls(plane, "a", WRONG)
    for _ in range(3):
        assert asked(plane)["routed"]["attempts"][0]["findings"] == ["missing_key"]
    [alarm] = [text for text in events(plane, "drift") if "more often" in text]
    assert "tool-use" in alarm

    poll(lambda: events(plane, "demoted"), "the preflight is over")
    [told] = events(plane, "demoted")
    assert told.startswith("tier cheap at tool-use: demoted: its answers became worse, and the preflight failed at ")
    assert "tool-" in told
    after = asked(plane)
    assert after["routed"]["tier"] == "dear"
    assert "cheap: dropped (denied), demoted: its answers became worse" in said(plane, "explain", after["id"])
    assert "cheap at tool-use: demoted: " in said(plane, "profile", "show")
    [stale] = plane.status()["routing"]["stale"]
    assert (stale["tier"], stale["why"].split(":")[0]) == ("cheap", "demoted")

    plane.signal(signal.SIGTERM)
    assert plane.exit_code() == 0
    plane.start()
    for name in "ab":
        assert plane.admin("switch", serve=name)[0] == 200
        calls(plane, name, RIGHT)
    assert asked(plane)["routed"]["tier"] == "dear", "a restart proves nothing"

    poll(lambda: looked_at(plane), "cheap was looked at")
    measured(plane, at=2.0)
    again = asked(plane)["routed"]
    assert (again["tier"], again["verdict"]) == ("cheap", "allow")


@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_a_model_that_is_well_passes_the_preflight_and_its_answers_are_only_checked() -> None:
    """Asked what it never could do: its template gives it tools, `tool_choice: none` or not."""
    with running(llama("a", "ember", context=2048, parallel=4, slot=None), ONE) as plane:
        assert plane.admin("switch", serve="a")[0] == 200
        poll(lambda: looked_at(plane), "cheap was looked at")
        measured(plane, at=1.0)
        weather = {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}  # fmt: skip
        document = {"model": "auto:tool-use", "tools": [weather], "tool_choice": "none", "temperature": 0,
                    "messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}  # fmt: skip
        poll(lambda: plane.ask("POST", "/v1/chat/completions", document) and events(plane, "drift"), "the alarm")
        poll(lambda: any("the preflight passes" in text for text in events(plane, "drift")), "the preflight is over")
        [stale] = plane.status()["routing"]["stale"]
        assert "its answers became worse" in stale["why"]
        assert events(plane, "demoted") == []
        assert not (plane.state / "demotions.json").exists()
