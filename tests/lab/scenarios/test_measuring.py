"""What a person measures: a benchmark through the front door, its failures, its ends, and its wrong inputs."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, poll, running, serve

from stoker_lab.testing.script.script import Script

QUICKLY = ("--concurrency", "1", "--repeats", "1", "--prompt-tokens", "40", "--output-tokens", "5")


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        serve("a", Script(tokens=50, first_event_after=0.02), aliases=["gpt-x"]),
        serve("slow", Script(tokens=50, first_event_after=0.4), slot=None),
        serve("down", slot=None),
        serve("silent", Script(usage=False), slot=None),
        keeps_engines=True,
    ) as plane:
        yield plane


def measured(plane: Plane, *words: str, code: int = 0) -> tuple[str, str]:
    """`stoker eval benchmark ...`: what it printed and what it said beside."""
    process = plane.begin("eval", "benchmark", *words)
    try:
        out, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, f"{words}: {process.returncode} {out} {said}"
    return out, said


def up(plane: Plane, *names: str) -> None:
    for name in names:
        assert plane.admin("switch", serve=name)[0] == 200


def kept(plane: Plane) -> list[Path]:
    return sorted((plane.state / "results").glob("*.json"))


def asked(plane: Plane, name: str) -> int:
    return len(plane.received(name, "/v1/chat/completions"))


def test_a_benchmark_prints_a_table_keeps_a_private_result_and_writes_a_report(plane: Plane) -> None:
    up(plane, "a")
    report = plane.directory / "report.html"
    out, said = measured(
        plane, "gpt-x", *QUICKLY, "--requests", "4", "--seconds", "0", "--html", str(report), "--direct"
    )
    assert "front-door (http://127.0.0.1:" in out
    assert "direct (http://127.0.0.1:" in out
    assert "8 ok, 0 failed" in out
    assert "left)" in said
    paths = [path for path in kept(plane) if str(path) in said]
    assert len(paths) == 2
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in paths} == {0o600}
    document = json.loads(paths[0].read_text())
    assert document["subject"]["serve"] == "a"
    assert (document["numbers"]["prompt_min"], document["numbers"]["prompt_max"]) == (40, 40)
    assert "<svg" in report.read_text()


def test_one_failed_request_of_eight_is_seven_ok_one_failed_and_exit_code_1(plane: Plane) -> None:
    """Behaviour 53."""
    up(plane, "slow")
    before = asked(plane, "slow")

    def break_one() -> None:
        poll(lambda: asked(plane, "slow") - before == 6, "five are there, one of them the very first, two the warm-up")
        plane.scripted("slow", die_after=2)
        poll(lambda: asked(plane, "slow") - before == 7, "the next one came")
        plane.scripted("slow", die_after=None)

    helper = threading.Thread(target=break_one)
    helper.start()
    out, _ = measured(plane, "slow", *QUICKLY, "--requests", "8", "--seconds", "0", "--json", code=1)
    helper.join()
    (run,) = json.loads(out)
    numbers = run["numbers"]
    assert (numbers["requests_ok"], numbers["requests_failed"], run["outcome"]) == (7, 1, "failed")
    assert run["findings"][0]["seen"].startswith("7 ok, 1 failed")
    assert numbers["ttft_p50"] >= 400
    assert len([one for one in run["raw"]["samples"][0]["requests"] if one["failure"]]) == 1


def test_a_role_only_first_chunk_does_not_stop_the_clock_and_an_error_frame_after_the_200_is_a_failure(
    plane: Plane,
) -> None:
    """Behaviour 54."""
    up(plane, "slow")
    plane.scripted("slow", role_first=True, first_event_after=0.15)  # the role comes at once, the first token later
    out, _ = measured(plane, "slow", *QUICKLY, "--requests", "3", "--seconds", "0", "--json")
    assert json.loads(out)[0]["numbers"]["ttft_p50"] >= 150
    before = asked(plane, "slow")

    def break_one() -> None:
        poll(lambda: asked(plane, "slow") - before == 6, "five are there, one of them the very first, two the warm-up")
        plane.scripted("slow", error_event_after=2, gap=0.1)  # what comes before it is on its way to the client by then
        poll(lambda: asked(plane, "slow") - before == 7, "the next one came")
        plane.scripted("slow", error_event_after=None, gap=0.0)

    helper = threading.Thread(target=break_one)
    helper.start()
    out, _ = measured(plane, "slow", *QUICKLY, "--requests", "8", "--seconds", "0", "--json", code=1)
    helper.join()
    plane.scripted("slow", role_first=False, first_event_after=0.4)
    (run,) = json.loads(out)
    (failed,) = [one for one in run["raw"]["samples"][0]["requests"] if one["failure"]]
    assert (run["outcome"], failed["status"]) == ("failed", 200)


def test_ctrl_c_keeps_and_prints_what_was_measured(plane: Plane) -> None:
    up(plane, "slow")
    before, results = asked(plane, "slow"), set(kept(plane))
    process = plane.begin("eval", "benchmark", "slow", *QUICKLY, "--seconds", "1000")
    poll(lambda: asked(plane, "slow") - before >= 7, "some are done")
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "interrupted: " in out
    (path,) = set(kept(plane)) - results
    document = json.loads(path.read_text())
    assert document["outcome"] == "interrupted"
    assert document["numbers"]["requests_ok"] >= 2
    assert document["numbers"]["requests_failed"] == 0


def test_without_usage_rates_of_tokens_are_absent(plane: Plane) -> None:
    """Behaviour 52: not chunks instead. The prompt is counted by the engine's own path."""
    up(plane, "silent")
    out, _ = measured(plane, "silent", *QUICKLY, "--requests", "3", "--seconds", "0", "--json")
    numbers: dict[str, Any] = json.loads(out)[0]["numbers"]
    absent = ("output_rate", "tpot_p50", "decode_rate", "ntpot_p50", "output_tokens", "tokens_per_chunk")
    assert {numbers[name] for name in absent} == {None}
    assert numbers["requests_ok"] == 3
    assert numbers["request_rate"] is not None


def test_a_serve_that_is_down_is_told_with_the_command_that_starts_it(plane: Plane) -> None:
    _, said = measured(plane, "down", code=2)
    assert f"start it: stoker serves up down --config {plane.config}" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch",), "there is no serve 'nosuch'"),
        (("a", "--base-url", "http://x"), "not both"),
        (("--model", "a"), "--model goes with --base-url"),
        (("--base-url", "http://127.0.0.1:1/v1", "--model", "a"), "cannot be reached"),
        (("--base-url", "ftp://x", "--model", "a"), "is not an address"),
        (("--base-url", "http://u:p@x", "--model", "a"), "--key-env"),
        (("--base-url", "http://x", "--model", "a", "--key-env", "NO_SUCH"), "NO_SUCH"),
        (("a", "--preset", "fast"), "known: ladder, users, short, long, decode"),
        (("a", "--mode", "hot"), "known: cold, warm"),
        (("a", "--concurrency", "0"), "above 0"),
        (("a", "--replay", "missing.jsonl"), "No such file"),
        (("a", "--replay", "missing.jsonl", "--rate", "1"), "uses the recorded times"),
        (("a", "--prompt-tokens", "4000", "--output-tokens", "500"), "context of 4096"),
        (("a", "--prompt-tokens", "0"), "x>=1"),
    ],
)
def test_wrong_input_says_what_to_change(plane: Plane, words: tuple[str, ...], says: str) -> None:
    up(plane, "a")
    _, said = measured(plane, *words, code=2)
    assert says in said


def test_a_wrong_model_id_names_those_that_there_are(plane: Plane) -> None:
    up(plane, "a")
    url = f"http://127.0.0.1:{plane.port}/v1"
    _, said = measured(plane, "--base-url", url, "--model", "gpt-y", code=2)
    assert "has no model 'gpt-y'; did you mean 'gpt-x'?" in said
    assert "a, gpt-x, slow" in said
    out, _ = measured(plane, "--base-url", url, "--model", "gpt-x", *QUICKLY, "--requests", "2", "--seconds", "0")
    assert "2 ok, 0 failed" in out


def test_a_second_benchmark_of_the_same_serve_is_refused(plane: Plane) -> None:
    up(plane, "slow")
    before = asked(plane, "slow")
    process = plane.begin("eval", "benchmark", "slow", *QUICKLY, "--seconds", "1000")
    try:
        poll(lambda: asked(plane, "slow") > before, "it has begun")
        _, said = measured(plane, "slow", *QUICKLY, code=1)
        assert "'slow' is already being measured by a benchmark of slow" in said
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_our_own_traffic_is_exported_and_replayed_and_two_results_are_compared(plane: Plane) -> None:
    up(plane, "a")
    out, said = measured(plane, "a", *QUICKLY, "--requests", "5", "--seconds", "0")
    first = Path(next(line.partition(": ")[2] for line in said.splitlines() if line.startswith("saved: "))).stem
    deadline = time.monotonic() + 10
    while len(lines := _trace(plane)) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {(one["input_length"], one["output_length"]) for one in lines} >= {(40, 5)}
    trace = plane.directory / "trace.jsonl"
    trace.write_text("\n".join(json.dumps(one) for one in lines[-5:]))
    out, _ = measured(plane, "a", "--replay", str(trace), "--speed", "2", "--against", first)
    assert "5 ok, 0 failed" in out
    assert "caution: another preset" in out


def _trace(plane: Plane) -> list[dict[str, Any]]:
    process = plane.begin("decisions", "--trace", "--limit", "100")
    out, _ = process.communicate(timeout=30)
    return [json.loads(line) for line in out.splitlines()]


def test_no_stoker_at_all_is_said_with_the_command_that_starts_one() -> None:
    with running(serve("a"), started=False) as plane:
        _, said = measured(plane, "a", code=1)
        assert "Stoker does not run here" in said
        assert "stoker up --config" in said
