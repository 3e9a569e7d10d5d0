"""`stoker top` shows what /status says: nothing that is unknown looks like a number."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.cli.fake_stoker import FakeStoker, serve_status, status, swap

from stoker.cli.commands.top import frame
from stoker.cli.console.answers import StatusAnswer
from stoker.cli.main import run


def drawn(
    now: dict[str, Any],
    before: dict[str, Any] | None = None,
    elapsed: float = 0.0,
    wall: float = 1000.0,
    width: int = 200,
) -> str:
    def read(document: dict[str, Any]) -> StatusAnswer:
        return msgspec.convert(document, StatusAnswer)

    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(frame(read(now), read(before) if before else None, elapsed, wall, console.width))
    return captured.get()


def row(text: str, name: str) -> str:
    [found] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return re.sub(r" {2,}", " | ", found.rstrip())


def test_a_serve_shows_state_health_temperature_load_and_memory() -> None:
    serve = serve_status(
        "fast", "ready", in_flight=2, queued=1, temperature="hot", measured=3 * 2**30,
        watchdog={"health": "verified", "verified_at": 994.0},
    )  # fmt: skip
    assert row(drawn(status(serve)), "fast") == (
        "fast | ready | verified 6.0 s ago | hot | gpu0 | 2/4 | 1 | - | 3.0 GiB | 12.0 s | 4.0 s"
    )


def test_what_is_warm_because_it_is_expected_next_says_why() -> None:
    text = drawn(status(serve_status("fast", temperature="warm", expected="rule")))
    assert row(text, "fast").startswith("fast | stopped | - | warm, rule | gpu0 |")


def test_what_nobody_knows_is_a_dash() -> None:
    assert (
        row(drawn(status(serve_status("fast"))), "fast")
        == "fast | stopped | - | - | gpu0 | 0/4 | 0 | - | - | - | 4.0 s"
    )


def test_memory_that_was_only_declared_says_so() -> None:
    assert "2.0 GiB declared" in drawn(status(serve_status("fast", memory=2 * 2**30)))


def test_the_rate_is_the_tokens_between_two_looks() -> None:
    def look(tokens: int) -> dict[str, Any]:
        return status(serve_status("fast", "ready", totals={"requests": 1, "output_tokens": tokens}))

    assert row(drawn(look(300), look(100), 2.0), "fast").split(" | ")[7] == "100"
    assert row(drawn(look(0), look(100), 2.0), "fast").split(" | ")[7] == "-", "Stoker was restarted in between"


def test_a_device_shows_what_it_says_and_a_dash_for_what_it_does_not() -> None:
    now = status(serve_status("fast"))
    now["devices"] = [
        {
            "name": "nvidia:0", "title": "NVIDIA L4", "use": 0.73, "memory_used": 6 * 2**30, "memory": 24 * 2**30,
            "temperature": 91, "watts": 72, "core_mhz": 1200, "throttled": ["heat", "power"],
        },
        {"name": "amd:0", "title": "AMD GPU", "memory": 16 * 2**30, "throttled": []},
        {"name": "intel:0", "title": "Intel GPU", "suspended": True},
    ]  # fmt: skip
    text = drawn(now)
    assert row(text, "nvidia:0") == ("nvidia:0 | 73% | 6.0 GiB of 24.0 GiB | 91 | 72 | 1200 | heat, power | NVIDIA L4")
    assert row(text, "amd:0") == "amd:0 | - | - | - | - | - | nothing | AMD GPU"
    assert row(text, "intel:0") == "intel:0 | - | - | - | - | - | - | suspended"
    assert "DEVICE" not in drawn(status(serve_status("fast")))


def test_a_swap_under_way_and_the_slots_memory() -> None:
    now = status(serve_status("fast", "draining"), swap=swap("draining", "slow", ["fast"]))
    now["slots"][0] |= {"memory": 8 * 2**30, "memory_used": 2 * 2**30}
    assert row(drawn(now), "gpu0") == "gpu0 | fast | 2.0 GiB of 8.0 GiB | draining slow, 1.0 s | 1 | 3"
    now["slots"][0]["swap"] = swap("starting", "slow", [])
    assert "starting slow, 1.0 s of about 4.0 s" in drawn(now)


def test_a_parked_serve_says_so_and_events_are_below() -> None:
    events = [{"at": 0.0, "kind": "parked", "serve": "fast", "text": "it was restarted 5 times in 10 minutes"}]
    text = drawn(status(serve_status("fast", parked="it flaps"), events=events))
    assert row(text, "fast").split(" | ")[1] == "parked"
    assert "parked     fast: it was restarted 5 times" in text


def test_a_name_with_markup_in_it_is_shown_as_it_is() -> None:
    events = [{"at": 0.0, "kind": "warned", "serve": "", "text": "[bold]x[/bold] [/]"}]
    assert "[bold]x[/bold] [/]" in drawn(status(events=events))


def test_without_a_terminal_it_prints_one_frame(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top"]) == 0
    out = capsys.readouterr().out
    assert "fast" in out
    assert "\x1b" not in out


def test_json_is_the_status_document(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pid"] == 4242


@pytest.mark.parametrize("interval", ["0s", "50ms", "often"])
def test_an_interval_that_makes_no_sense_is_refused(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--interval", interval]) == 2
    assert f"--interval {interval}" in capsys.readouterr().err


def test_without_a_running_stoker_it_says_how_to_start_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once"]) == 1
    assert "stoker up" in capsys.readouterr().err


def test_on_a_narrow_terminal_names_stay_whole_and_what_matters_least_is_left_out() -> None:
    serve = serve_status("qwen3-coder-30b", "ready", watchdog={"health": "verified", "verified_at": 994.0})
    text = drawn(status(serve), width=80)
    assert row(text, "qwen3-coder-30b").startswith("qwen3-coder-30b | ready | verified 6.0 s ago | 0/4")
    assert "LOADS IN" not in text
