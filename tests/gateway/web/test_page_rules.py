"""Rules of the web page that need no browser: its pure modules, run by the Node.js that Playwright brings along."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright._impl._driver import compute_driver_executable

import stoker.gateway.web.files
from stoker.cli.commands.watchdog import elsewhere
from stoker.cli.console.answers import ServeStatus
from stoker.domain import figures
from stoker.domain.decision import Decision, OrchestratedRecord
from stoker.domain.serve import Driver
from stoker.domain.speed import tokens_per_second

STATIC = Path(stoker.gateway.web.files.__file__).with_name("static")


def told(module: str, expression: str, *given: Any) -> Any:
    """What `expression` makes of `given`, with the exports of a module of the page as `it`."""
    program = f"""
import * as it from {json.dumps((STATIC / module).as_uri())};
const given = {json.dumps(given, default=msgspec.to_builtins)};
console.log(JSON.stringify(await ({expression})(...given)));
"""
    command = [compute_driver_executable()[0], "--no-warnings", "--input-type=module"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SIZES = [0, 1, 1023, 1024, 1536, 2**20 - 1, 2**20, 99.94 * 2**20, 99.96 * 2**20, 100 * 2**20, 1000 * 2**20, 2**30,
         79.65 * 2**30, 2**40, 250 * 2**40]  # fmt: skip


def test_a_size_reads_the_same_on_the_page_and_on_the_command_line() -> None:
    sizes = [int(size) for size in SIZES]
    assert told("format.js", "(all) => all.map(it.bytes)", sizes) == [figures.size(size) for size in sizes]


def ended(at: float, **more: Any) -> dict[str, Any]:
    return {"id": f"r{at}", "at": at, "outcome": "served", "status": 200, "latency": 1.0, "serve": "a", **more}


def test_a_time_in_the_address_keeps_the_requests_that_ended_in_it() -> None:
    found = [ended(990), ended(690, latency=20), ended(600), {"id": "open", "at": 100, "state": "answering"}]
    kept = "(found, filter) => it.filtered(found, filter, 1000).map((one) => one.at)"
    assert told("outcomes.js", kept, found, {"last": "300"}) == [990, 690]
    assert told("outcomes.js", kept, found, {"last": "nonsense"}) == [990, 690, 600, 100]
    assert told("outcomes.js", kept, [ended(991, session="s"), *found], {"session": "s"}) == [991]
    assert told("outcomes.js", kept, [ended(990, outcome="cut"), *found], {"last": "300", "outcome": "failed"}) == [990]


def test_a_scale_is_round_and_does_not_follow_the_longest_few() -> None:
    scale = "(lengths) => it.scaleFor(lengths)"
    assert told("scale.js", scale, []) == 1
    assert told("scale.js", scale, [0.011, 0.02]) == 0.02
    assert told("scale.js", scale, [1.0] * 99 + [400.0]) == 1
    assert told("scale.js", scale, [3.0] * 5 + [44.0] * 5) == 60


TREND = "(all, given) => it.trend(all, given)"


def test_a_trend_has_the_median_of_each_part_and_what_it_did_not_see_is_unknown() -> None:
    all_ = [ended(at, stream=True, latency=2.0, ttft=0.5, output_tokens=31) for at in (291, 293, 295)]
    all_ += [ended(250, outcome="cut", latency=5.0), ended(130, latency=9.0)]
    parts = told("trend.js", TREND, all_, {"now": 303, "span": 300, "since": 100})
    assert len(parts) == 30
    assert (parts[0]["from"], parts[-1]["to"]) == (0, 300)
    by_from = {part["from"]: part for part in parts}
    last = by_from[290]
    assert (last["requests"], last["failed"], last["whole"], last["first"]) == (3, 0, 2.0, 0.5)
    assert last["speed"] == 20.0
    assert last["tokens"] == pytest.approx(3 * 31 / 10)
    assert (by_from[250]["failed"], by_from[250]["whole"]) == (1, None)
    assert (by_from[130]["whole"], by_from[130]["first"], by_from[130]["speed"]) == (9.0, None, None)
    assert (by_from[90]["requests"], by_from[90]["tokens"]) == (None, None), "nothing is known of it"
    assert (by_from[110]["requests"], by_from[110]["tokens"]) == (0, 0)


@pytest.mark.parametrize(
    ("at", "outcome", "words"),
    [(250, "served", ""), (301, "served", "The times of the first request are drawn within 10 s."),
     (250, "failed", "No request was answered in the last 5 min: there are no times to draw."),
     (-50, "served", "No request ended in the last 5 min: there are no times to draw.")],
)  # fmt: skip
def test_where_nothing_is_drawn_the_page_says_why(at: float, outcome: str, words: str) -> None:
    why = "(all, given) => it.nothingToDraw(it.trend(all, given), all)"
    assert (
        told("trend.js", why, [ended(at, outcome=outcome, latency=1.0)], {"now": 303, "span": 300, "since": -100})
        == words
    )


def test_tokens_count_when_they_were_written_and_not_all_at_the_end() -> None:
    (long,) = all_ = [ended(100, stream=True, ttft=10.0, latency=50.0, output_tokens=400)]
    assert long["at"] + long["latency"] == 150
    parts = told("trend.js", TREND, all_, {"now": 300, "span": 300, "since": 0})
    assert {part["from"]: part["tokens"] for part in parts if part["tokens"]} == {110: 10, 120: 10, 130: 10, 140: 10}


@pytest.mark.parametrize(
    "facts",
    [
        {"output_tokens": 31, "ttft": 0.5, "latency": 2.0},
        {"output_tokens": 4, "ttft": 0.5, "latency": 2.0},
        {"output_tokens": 40, "ttft": 1.98, "latency": 2.0},
        {"output_tokens": 40, "ttft": None, "latency": 2.0},
        {"output_tokens": 40, "ttft": 0.5, "latency": 2.0, "stream": False},
        {
            "output_tokens": 40,
            "ttft": 0.5,
            "latency": 2.0,
            "orchestrated": OrchestratedRecord("o", "block_by_block", "caller"),
        },
    ],
)
def test_the_page_counts_tokens_per_second_as_the_command_line_does(facts: dict[str, Any]) -> None:
    decision = Decision("r", 0.0, "", **{"stream": True, **facts})
    assert told("speed.js", "it.speedOf", msgspec.to_builtins(decision)) == tokens_per_second(decision)


def status(*serves: dict[str, Any], slots: list[dict[str, Any]]) -> dict[str, Any]:
    return {"serves": [{"state": "ready", **serve} for serve in serves], "slots": slots}


@pytest.mark.parametrize(
    ("document", "used", "of"),
    [
        (status({"measured": 3, "memory": 5}, {"memory": 2}, slots=[{"memory": 8}, {"memory": 4}]), "5 B", "12 B"),
        (status({"measured": 3}, {"memory": 2, "state": "stopped"}, slots=[{"memory": 8}]), "3 B", "8 B"),
        (status({"measured": 3}, {}, slots=[{"memory": 8}, {"memory": None}]), "3 B", "at least"),
        (status({}, slots=[]), "–", None),
        (status(slots=[]), "0 B", None),
        (status({"measured": 3}, {"driver": "external"}, slots=[]), "3 B", None),
    ],
)
def test_the_memory_of_all_serves_is_a_sum_of_what_is_known(document: Any, used: str, of: str | None) -> None:
    is_part = of == "at least"
    expected = {"used": used, "isPart": is_part, "of": None if is_part else of}
    assert told("memory.js", "it.totalMemory", document) == expected


@pytest.mark.parametrize(
    ("serve", "title", "text"),
    [
        ({"cannot_load": "no such tensor", "last_error": "old"}, "It cannot load:", "no such tensor."),
        ({"parked": "three crashes.", "last_error": "old"}, "Parked:", "three crashes."),
        ({"last_error": "exited with code 3"}, "The last failure:", "exited with code 3."),
        ({"watchdog": {"health": "sick", "findings": [
            {"assertion": "answers", "ok": True, "detail": "yes"},
            {"assertion": "devices", "ok": False, "detail": "it uses nvidia:0"},
            {"assertion": "context", "ok": None, "detail": "unknown"},
        ]}, "last_error": "old"}, "It does not work as it should:", "devices: it uses nvidia:0."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_serve_is_what_keeps_it_from_being_loaded(serve: Any, title: str, text: str) -> None:
    found = told("problems.js", "it.problemOf", serve)
    assert (found["title"], found["text"]) == (title, text)


def test_nothing_is_wrong_with_a_serve_that_never_failed() -> None:
    assert told("problems.js", "it.problemOf", {"state": "stopped", "last_error": None}) is None


def test_the_plan_of_a_load_says_that_it_was_tried_and_why_it_failed() -> None:
    serve = {"name": "bad", "state": "cannot_load", "cannot_load": "no such tensor", "slot": None}
    preview = {"ready": False, "refusal": None, "victims": [], "waits": False}
    first = told("plan.js", "it.loadPlan", status(serve, slots=[]), "bad", preview)[0]
    assert first == "Try it again, although it could not load: no such tensor."


def test_links_of_a_documentation_page_lead_to_pages_here_and_those_to_other_files_are_words() -> None:
    text = (
        "# `stoker` keys\n\n<!-- generated: x -->\n[share](share.md#two-keys), [all](../README.md), [the top](#keys),\n"
        "![picture](../pictures/x.png)[code](../../bench/README.md), [out](https://example.org/a)\n```sh\n[x](y.md)\n```"
    )
    prepared = told("docs_text.js", "it.prepared", text, "guides/keys", "http://h/llm/ui/")
    assert prepared["title"] == "stoker keys"
    assert prepared["text"] == (
        "\n[share](http://h/llm/ui/#/docs/guides/share?at=two-keys), [all](http://h/llm/ui/#/docs/),"
        " [the top](http://h/llm/ui/#/docs/guides/keys?at=keys),\ncode, [out](https://example.org/a)\n"
        "```sh\n[x](y.md)\n```"
    )
    assert told("docs_text.js", "it.anchor", "What `stoker` does, and why") == "what-stoker-does-and-why"


def test_a_log_is_offered_only_where_something_was_started_here() -> None:
    offers = "(serve) => it.hasLog(serve)"
    for driver in Driver:
        is_here = driver not in (Driver.EXTERNAL, Driver.SYSTEMD, Driver.BOX)
        assert told("problems.js", offers, {"driver": driver.value}) is is_here
        assert (elsewhere(ServeStatus("a", "ready", driver=driver.value)) == "") is is_here
    assert told("problems.js", offers, {"cannot_load": None, "failed_start": None}) is True
    assert told("problems.js", offers, {"cannot_load": "cut off", "failed_start": None}) is False
    assert told("problems.js", offers, {"cannot_load": "cut off", "failed_start": "unsupported"}) is True
