"""An interrupted preflight: it is no verdict, it is kept as it comes, and it goes on if nothing changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, Subject
from stoker_lab.artifacts import result_file
from stoker_lab.preflight import resuming
from stoker_lab.preflight.resuming import FlawsSeen, change_since, finished, unknown_parts
from stoker_lab.preflight.run import PreflightOptions, recorded_options, run_preflight
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

PARTS = dict.fromkeys(("model", "revision", "quantisation", "template", "sampling"), "a") | {"version": "1"}
WHERE = Subject("m", "m", "http://127.0.0.1:1/v1", fingerprint=Fingerprint("a", "b", PARTS))
ONLY = ["model", "usage", "frames"]


class Server:
    """A scripted server that is asked in several runs, and what it was asked in the last one."""

    def __init__(self) -> None:
        self.kept: list[Run] = []
        self.asked: list[str] = []

    def run(self, until: str = "", earlier: Run | None = None, only: Any = ONLY) -> Run:
        """`until`: Ctrl-C when this check begins."""

        async def run() -> Run:
            async with ScriptedServer(Script()) as server:
                task = asyncio.current_task()
                target = Target("127.0.0.1", server.port, "", "scripted")

                def show(step: Any) -> None:
                    if step.finding is None:
                        self.asked.append(step.check)
                    if step.check == until and step.finding is None and task is not None:
                        task.cancel()

                self.asked, self.kept = [], []
                return await run_preflight(WHERE, target, PreflightOptions(only), show, self.kept.append, earlier)

        return asyncio.run(run())


def test_each_finished_check_is_kept_before_the_next_one_begins_and_is_no_verdict() -> None:
    server = Server()
    run = server.run()
    assert run.outcome is Outcome.PASSED
    assert [len(finished(one)) for one in server.kept] == [1, 2]
    assert {one.outcome for one in server.kept} == {Outcome.INTERRUPTED}
    assert {one.id for one in server.kept} == {run.id}


def test_a_part_in_which_a_check_failed_is_no_verdict_either() -> None:
    server = Server()
    run = server.run(until="frames", only=["json-schema", "frames"])
    assert [one.outcome for one in run.findings] == [Outcome.FAILED, Outcome.INTERRUPTED]
    assert run.outcome is Outcome.INTERRUPTED


def test_it_goes_on_with_what_is_left_and_keeps_its_name_and_time() -> None:
    server = Server()
    first = server.run(until="usage")
    assert list(finished(first)) == ["model"]
    found = server.run(earlier=first)
    assert server.asked == ["usage", "frames"]
    assert (found.id, found.at, found.outcome) == (first.id, first.at, Outcome.PASSED)
    assert found.findings[0].seconds == first.findings[0].seconds
    assert found.seconds > first.seconds
    again = server.run(earlier=server.kept[-1])
    assert (server.asked, again.outcome) == (["frames"], Outcome.PASSED)


def test_flaws_that_finished_checks_saw_are_judged_by_the_check_that_is_left() -> None:
    flaws = [("split", "a letter is cut in two")]
    earlier = Server().run(until="frames", only=["model", "frames", "unicode"])
    earlier.raw = result_file.raw(FlawsSeen(flaws))
    found = Server().run(earlier=earlier, only=["model", "frames", "unicode"])
    assert next(one.observed for one in found.findings if one.name == "unicode").startswith(flaws[0][1])


def test_what_changed_since_is_named_and_then_nothing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    options = recorded_options(PreflightOptions(ONLY))
    earlier = Server().run(until="usage")

    def change(**parts: str) -> str:
        fingerprint = Fingerprint("x", "y", PARTS | parts)
        return change_since(earlier, Subject("m", "m", WHERE.base_url, fingerprint=fingerprint), options)

    assert change_since(earlier, WHERE, options) == ""
    assert change(model="b") == "model: a -> b"
    assert change(context="4096") == "context: none -> 4096"
    moved = Subject("m", "m", "http://127.0.0.1:2/v1", fingerprint=WHERE.fingerprint)
    assert change_since(earlier, moved, options) == "", "the front door may move"
    other = Run(**fields(earlier, Subject("m", "other", WHERE.base_url)))
    assert change_since(other, WHERE, options) == "it asked other (front-door)"
    one, two = (Subject("m", "m", f"http://127.0.0.1:{port}/v1", route="public") for port in (1, 2))
    assert change_since(Run(**fields(earlier, one)), two, options) == "it asked http://127.0.0.1:1/v1"
    for name, value in (("only", []), ("needle_ctx", 900), ("baseline", {"a": 1})):
        asked = recorded_options(PreflightOptions(ONLY)._replace(**{name: value}))
        assert change_since(earlier, WHERE, asked) == f"other options: {name}"
    monkeypatch.setattr(resuming, "checks_version", lambda: "another")
    monkeypatch.setattr("stoker_lab.preflight.run.checks_version", lambda: "another")
    assert "another version" in change_since(earlier, WHERE, recorded_options(PreflightOptions(ONLY)))


def fields(run: Run, subject: Subject) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__struct_fields__} | {"subject": subject}


def test_a_model_of_somebody_else_is_not_known_to_be_the_same() -> None:
    assert unknown_parts(WHERE) == []
    assert unknown_parts(Subject("m", "m", "http://x/v1", fingerprint=Fingerprint(parts={"template": "t"}))) == [
        "model", "revision", "quantisation", "sampling",
    ]  # fmt: skip


def test_a_raw_part_of_another_kind_leaves_no_flaws() -> None:
    run = Run("x", Server().run(until="usage").kind, 0, 0, WHERE, Outcome.INTERRUPTED, [Finding("a", Outcome.PASSED)])
    assert resuming.flaws_in(run) == FlawsSeen()
    run.raw = result_file.raw(json.loads("[1]"))
    assert resuming.flaws_in(run) == FlawsSeen()
