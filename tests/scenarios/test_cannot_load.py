"""A model that cannot load costs the one that works nothing: real llama.cpp, real damaged files."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import MODELS, Plane, llama, poll, running

SPARK = (MODELS / "spark.gguf").read_bytes()


def bad_numbers() -> bytes:
    """A whole file whose header is right in form, but whose tokenizer no llama.cpp knows."""
    return SPARK.replace(b"tokenizer.ggml.model", b"tokenizer.ggml.modex", 1)


def other_architecture() -> bytes:
    return SPARK.replace(b"llama", b"lamma")


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        llama("works"),
        llama("cut", model="../cut"),
        llama("strange", model="../strange"),
        llama("stranger", model="../stranger"),
        llama("dangling", model="../dangling"),
        llama("split", model="../split-00001-of-00002"),
        started=False,
    ) as plane:
        text = plane.config.read_text()
        for name in ("cut", "strange", "stranger", "dangling", "split-00001-of-00002"):
            text = text.replace(str(MODELS / f"../{name}.gguf"), str(plane.directory / f"{name}.gguf"))
        plane.write(text)
        (plane.directory / "cut.gguf").write_bytes(SPARK[: len(SPARK) * 3 // 4])
        (plane.directory / "strange.gguf").write_bytes(bad_numbers())
        (plane.directory / "stranger.gguf").write_bytes(other_architecture())
        (plane.directory / "split-00001-of-00002.gguf").write_bytes(SPARK)
        (plane.directory / "dangling.gguf").symlink_to(plane.directory / "nowhere.gguf")
        plane.start()
        yield plane


def swaps(plane: Plane) -> int:
    return int(plane.slot()["swaps"])


def replace_file(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    os.replace(fresh, path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut", "is cut off"),
        ("dangling", "nowhere.gguf, which does not exist"),
        ("split", "split-00002-of-00002.gguf"),
        ("stranger", "architecture 'lamma'"),
    ],
)
@story
async def test_what_a_header_tells_stops_nothing_at_all(plane: Plane, name: str, words: str) -> None:
    assert (await ask(plane, "works")).status == 200
    before, pid = swaps(plane), plane.serve("works")["pid"]
    for _ in range(4):
        refused = await ask(plane, name)
        assert refused.status == 503
        assert refused.json()["error"]["code"] == "cannot_load"
        assert words in refused.json()["error"]["message"]
        assert (await ask(plane, "works")).status == 200
    assert (swaps(plane), plane.serve("works")["pid"]) == (before, pid)
    shown = plane.serve(name)
    assert shown["state"] == "cannot_load"
    assert words in shown["cannot_load"]


@story
async def test_after_the_first_failure_nothing_is_stopped_for_it_again(plane: Plane) -> None:
    assert (await ask(plane, "works")).status == 200
    first = await ask(plane, "strange")
    assert first.status == 503
    poll(lambda: plane.serve("works")["state"] == "ready", "the one that works is back")
    before, pid = swaps(plane), plane.serve("works")["pid"]
    for _ in range(4):
        refused = await ask(plane, "strange")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "cannot_load")
        assert refused.header("x-should-retry") == "false"
        assert "stoker serves logs strange" in refused.json()["error"]["message"]
        assert (await ask(plane, "works")).status == 200
    assert (swaps(plane), plane.serve("works")["pid"]) == (before, pid)
    assert plane.serve("strange")["state"] == "cannot_load"
    assert 'stoker_serve_state{serve="strange",state="cannot_load"} 1' in plane.ask("GET", "/metrics")[1]
    table = plane.run("serves", "status").stdout
    assert "cannot load" in table
    assert plane.run("watchdog", "--once").returncode == 1


@story
async def test_a_new_file_is_tried_at_once_and_a_person_may_try_at_any_time(plane: Plane) -> None:
    assert (await ask(plane, "cut")).status == 503
    replace_file(plane.directory / "cut.gguf", SPARK)
    answered = await ask(plane, "cut")
    assert answered.status == 200
    assert plane.serve("cut")["state"] == "ready"
    assert plane.serve("cut")["cannot_load"] is None

    if plane.serve("strange")["state"] != "cannot_load":
        await ask(plane, "strange")
    tried = plane.run("serves", "up", "strange")
    assert tried.returncode == 1, "it is started again, and fails again"
    assert plane.serve("strange")["state"] == "cannot_load"
    replace_file(plane.directory / "strange.gguf", SPARK)
    assert (await ask(plane, "strange")).status == 200


@story
async def test_a_file_that_was_mended_shows_without_a_request(plane: Plane) -> None:
    path = plane.directory / "cut.gguf"
    plane.admin("unload", serve="cut")
    replace_file(path, SPARK[:5000])
    assert (await ask(plane, "cut")).status == 503
    assert plane.serve("cut")["state"] == "cannot_load"
    assert plane.admin("reload")[0] == 200
    assert plane.serve("cut")["state"] == "cannot_load", "a reload that does not touch it tells nothing new"
    replace_file(path, SPARK)
    poll(lambda: plane.serve("cut")["state"] == "stopped", "it may load")


@story
async def test_explain_still_knows_after_a_restart_what_a_request_waited_for_and_why_a_load_failed() -> None:
    with running(llama("one"), llama("two"), llama("broken", model="../broken"), started=False) as plane:
        path = plane.directory / "broken.gguf"
        plane.write(plane.config.read_text().replace(str(MODELS / "../broken.gguf"), str(path)))
        path.write_bytes(bad_numbers())
        plane.start()
        assert (await ask(plane, "one")).status == 200
        waited = (await ask(plane, "two")).header("x-request-id") or ""
        assert (await ask(plane, "broken")).status == 503
        newest = (await ask(plane, "broken")).header("x-request-id") or ""
        plane.decision(newest)
        told = {name: plane.run("explain", *words).stdout for name, words in questions(waited).items()}
        assert "until two was loaded" in told["id"]
        assert "two started" in told["id"]
        assert told["newest"].startswith(f"request {newest}\n")
        assert told["failed"] == told["newest"]
        assert "cannot_load" in told["failed"]
        assert "`stoker serves logs broken` has its log" in told["failed"]
        plane.signal(signal.SIGTERM)
        assert plane.exit_code() == 0
        assert {name: plane.run("explain", *words).stdout for name, words in questions(waited).items()} == told
        plane.start()
        assert {name: plane.run("explain", *words).stdout for name, words in questions(waited).items()} == told


def questions(id: str) -> dict[str, tuple[str, ...]]:
    """The words after `stoker explain`."""
    return {"id": (id,), "newest": (), "failed": ("--failed",)}


@story
async def test_serves_up_takes_the_next_one_for_one_that_cannot_load_and_says_so() -> None:
    slots = '[slots.gpu0]\nmemory = "2GiB"'
    given = {"memory": "1GiB", "context": 256}
    with running(
        llama("one", **given), llama("cut", model="../cut", **given), llama("two", **given), slots=slots, started=False
    ) as plane:  # fmt: skip
        path = plane.directory / "cut.gguf"
        plane.write(plane.config.read_text().replace(str(MODELS / "../cut.gguf"), str(path)))
        path.write_bytes(SPARK[:9000])
        offline = plane.run("serves", "up", "--dry-run", "--json").stdout
        assert [plan["serve"] for plan in json.loads(offline)] == ["one", "two"]
        plane.start()
        planned = plane.run("serves", "up", "--dry-run", "--json").stdout
        assert [plan["serve"] for plan in json.loads(planned)] == ["one", "two"]
        done = plane.run("serves", "up")
        assert done.returncode == 0
        assert "left out: cut cannot load: " in done.stderr
        assert [one["state"] for one in plane.status()["serves"]] == ["ready", "cannot_load", "ready"]
        refused = plane.run("serves", "up", "cut", "--dry-run")
        assert refused.returncode == 1
        assert "1. refuse: serve 'cut' cannot load: " in refused.stdout
