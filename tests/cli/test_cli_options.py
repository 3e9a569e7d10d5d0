"""Completion of serve names, words for figures, colours, and progress."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status, status, swap

from stoker.cli.console import figures, load_progress, options, terminal
from stoker.cli.console.answers import StatusAnswer
from stoker.cli.console.control import Control
from stoker.domain.errors import StokerError
from stoker.domain.task import CLASSES


def complete(incomplete: str, config: str | None = None) -> list[str]:
    context: Any = SimpleNamespace(params={"config": config})
    return options.serve_names(context, incomplete)


def test_names_are_completed_from_the_configuration(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("") == ["fast", "slow", "odd"]
    assert complete("f") == ["fast"]
    monkeypatch.chdir("/")
    assert complete("") == []
    assert complete("", str(config)) == ["fast", "slow", "odd"]
    monkeypatch.setenv("STOKER_CONFIG", str(config))
    assert complete("o") == ["odd"]


@pytest.mark.parametrize("text", ["[[serve]", "serve = 3", "[[serve]]\nname = 3", '[serve]\nname = "x"'])
def test_completion_is_silent_about_a_file_that_it_cannot_read(
    config: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    config.write_text(text)
    assert complete("") == []
    assert capsys.readouterr() == ("", "")


def test_an_abstract_serve_is_not_offered(config: Path) -> None:
    config.write_text('[[serve]]\nname = "base"\nabstract = true\n[[serve]]\nname = "b"\n')
    assert complete("b") == ["b"]


def test_models_are_completed_by_every_name_that_a_client_may_use(config: Path) -> None:
    def models(incomplete: str) -> list[str]:
        return options.model_names(SimpleNamespace(params={"config": None}), incomplete)  # type: ignore[arg-type]

    assert models("") == ["fast", "slow", "odd", "gpt-x"]
    aliases = '[alias]\nplanner = "auto:planning"\nmain = "fast"\nany = { serve = "auto" }\n'
    named = '[[serve]]\nname = "q"\naliases = ["q:8b", "Q Coder"]\n[[serve.variant]]\nname = "q:thinking"\n'
    config.write_text(f"{config.read_text()}\n{named}{aliases}")
    assert models("q") == ["q", "q:8b", "q:thinking"]
    assert models("m") == ["main"]
    assert models("a") == models("p") == []
    config.write_text(f"{config.read_text()}{ROUTED}")
    assert models("a") == ["auto", "any"]
    assert models("p") == ["planner"]


def test_what_promote_and_gate_may_move_and_slots_and_clusters_are_completed(config: Path) -> None:
    context: Any = SimpleNamespace(params={"config": None})
    assert (options.alias_names(context, ""), options.cluster_names(context, "")) == ([], [])
    config.write_text('slots = 3\nalias = { main = "fast", p = "auto:planning" }\n[clusters.lab]\n')
    assert (options.alias_names(context, ""), options.cluster_names(context, "l")) == (["main"], ["lab"])
    assert options.slot_names(context, "") == []
    config.write_text("[slots.gpu0]\n[slots.gpu1]\n")
    assert options.slot_names(context, "gpu") == ["gpu0", "gpu1"]


ROUTED = """
[router.class.contracts]
words = ["clause"]
[[tier]]
name = "spark"
serve = "fast"
[[tier]]
name = "small"
serve = "slow"
"""


def test_tiers_and_classes_are_completed_from_the_configuration(config: Path) -> None:
    context: Any = SimpleNamespace(params={"config": None})
    assert options.tier_names(context, "") == []
    assert options.class_names(context, "") == list(CLASSES)
    config.write_text(config.read_text() + ROUTED)
    assert options.tier_names(context, "s") == ["spark", "small"]
    assert options.tier_names(context, "sp") == ["spark"]
    assert options.class_names(context, "c") == ["chat", "creative", "code-write", "code-edit", "contracts"]
    assert options.class_lists(context, "chat,con") == ["chat,contracts"]
    assert options.class_lists(context, "pl") == ["planning"]


@pytest.mark.parametrize("text", ["[[tier]", "tier = 3", "router = 3", "[router]\nclass = 3", "[[tier]]\nname = 3"])
def test_a_file_that_makes_no_sense_completes_to_what_is_built_in(config: Path, text: str) -> None:
    config.write_text(text)
    context: Any = SimpleNamespace(params={"config": None})
    assert options.tier_names(context, "") == []
    assert options.class_names(context, "") == list(CLASSES)


def test_files_of_profiles_are_completed_with_their_directories(home: Path) -> None:
    work = home / "work"
    for name in ("one.json", "two.txt", ".hidden.json", "sub/three.json"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).touch()
    assert options.profile_files("") == ["one.json", "sub/"]
    assert options.profile_files("o") == ["one.json"]
    assert options.profile_files(".h") == [".hidden.json"]
    assert options.profile_files("sub/") == ["sub/three.json"]
    assert options.profile_files(f"{work}/sub/t") == [f"{work}/sub/three.json"]
    assert options.profile_files("~/work/on") == ["~/work/one.json"]
    assert options.profile_files("nowhere/x") == []


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "-"), (-0.5, "-"), (-86_400.0, "-"), (0.0, "0 ms"), (0.9994, "999 ms"),
     (0.9996, "1.0 s"), (99.94, "99.9 s"), (99.96, "1m 40s"),
     (3599.4, "59m 59s"), (3600, "1h 00m"), (7800, "2h 10m")],
)  # fmt: skip
def test_seconds_in_words(value: float | None, words: str) -> None:
    assert figures.seconds(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (30 * 2**30, "30.0 GiB"), (200 * 2**20, "200 MiB"),
     (3 * 2**40, "3.0 TiB")],
)  # fmt: skip
def test_sizes_in_words(value: int | None, words: str) -> None:
    assert figures.size(value) == words


class Terminal:
    """A stdout that says it is a terminal."""

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)], ids=["colours", "NO_COLOR"])
def test_colours_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    fake = Terminal()
    monkeypatch.setattr(sys, "stdout", fake)
    terminal.table(("STATE",), [("ready",)])
    assert "ready" in fake.written
    assert ("\x1b[32m" in fake.written) is coloured


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)], ids=["colours", "NO_COLOR"])
def test_a_note_in_a_colour_is_plain_and_safe_where_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch, variable: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setenv("TERM", "xterm-256color")
    fake = Terminal()
    monkeypatch.setattr(sys, "stderr", fake)
    terminal.note_in("dim", "block 1: \x1b[2Jpassed")
    assert "block 1: \\u001b[2Jpassed" in fake.written
    assert ("\x1b[2m" in fake.written) is coloured


def phase(*serves: dict[str, Any], **more: Any) -> load_progress.LoadPhase:
    import msgspec

    return load_progress.phase_of(msgspec.convert(status(*serves, **more), StatusAnswer), "slow", waited=9.0)


def test_the_phase_is_that_of_the_swap_that_the_serve_waits_for() -> None:
    fast, slow = serve_status("fast", "draining", in_flight=3), serve_status("slow")
    assert phase(fast, slow, swap=swap("draining", "slow", ["fast"])) == load_progress.LoadPhase(
        "draining fast (3 in flight)", 1.0, None
    )
    assert phase(fast, slow, swap=swap("starting", "slow", ["fast"])).words == "stopping fast"
    assert phase(fast, slow, swap=swap("starting", "slow", [])) == load_progress.LoadPhase("starting slow", 1.0, 4.0)
    assert phase(fast, slow, swap=swap("restoring", "fast", [])).words == "restoring fast"
    assert phase(fast, slow, swap=swap("stopping", None, ["fast"])).words == "stopping fast"


def test_without_a_swap_the_phase_is_that_of_the_serve() -> None:
    assert phase(serve_status("slow", "starting", slot=None)) == load_progress.LoadPhase("starting slow", 9.0, 4.0)
    assert phase(serve_status("slow")) == load_progress.LoadPhase("asking", 9.0, None)
    assert phase(serve_status("fast")).words == "asking"


def test_a_live_line_shows_and_removes_itself(stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    stoker.status(serve_status("fast"), serve_status("slow"), swap=swap("starting", "slow", [], elapsed=9.0))
    monkeypatch.setattr(terminal, "is_live", lambda stderr=False: True)
    monkeypatch.setenv("TERM", "xterm")
    fake = Terminal()
    monkeypatch.setattr(sys, "stderr", fake)
    polled = len(stoker.asked)

    def work(control: Control) -> str:
        while len(stoker.asked) < polled + 2:
            control.status()
        return "done"

    assert load_progress.watch(Control(stoker.path), "slow", work, poll=0.001) == "done"
    assert fake.written


def test_what_the_work_raises_is_raised_and_no_thread_is_left(stoker: FakeStoker) -> None:
    import threading

    def work(control: Control) -> None:
        raise StokerError("no")

    before = threading.active_count()
    with pytest.raises(StokerError, match="no"):
        load_progress.watch(Control(stoker.path), "slow", work, quiet=True, poll=0.001)
    assert threading.active_count() <= before + 1  # the fake's own handler may still be closing


def test_ctrl_c_stops_watching_at_once(stoker: FakeStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    asked, release = threading.Event(), threading.Event()

    def switch(body: object) -> tuple[int, object]:
        asked.set()
        release.wait(10)
        return 200, {"serve": "slow"}

    def interrupted(futures: object, timeout: float) -> None:
        assert asked.wait(5)
        raise KeyboardInterrupt

    stoker.routes["POST /admin/switch"] = switch
    monkeypatch.setattr(load_progress, "wait", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_progress.watch(Control(stoker.path), "slow", lambda c: c.switch("slow"), quiet=True)
        assert not [t for t in threading.enumerate() if t.name == "stoker-slow"]
    finally:
        release.set()


def test_edges_are_completed_from_the_configuration(config: Path) -> None:
    context: Any = SimpleNamespace(params={"config": None})
    assert options.edge_names(context, "") == []
    config.write_text(f"{config.read_text()}\n[edge.gpu]\n[edge.other]\n")
    assert options.edge_names(context, "") == ["gpu", "other"]
    assert options.edge_names(context, "g") == ["gpu"]
