"""A measurement that is ended keeps what it has, says how it goes on, and counts as no verdict until it is whole."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STOKER = Path(sys.executable).with_name("stoker")
ONLY = ("--only", "model,special-tokens,usage,frames")


class Place:
    """A home directory, and a scripted model at an address, which is slow enough to be interrupted."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.server = self.serve()

    def serve(self, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "stoker_lab.testing.scripted", "--port", str(self.port), "--id", "some", *more]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert "listens" in server.stdout.readline()
        return server

    def end(self) -> None:
        self.server.terminate()
        self.server.communicate(timeout=10)

    def begin(self, *more: str) -> subprocess.Popen[str]:
        command = [STOKER, "eval", "preflight", "--base-url", self.url, *ONLY, *more]
        environment = {**os.environ, "HOME": str(self.home)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                cwd=self.home)  # fmt: skip

    def run(self, *more: str) -> tuple[int, dict[str, Any], list[str]]:
        """The exit code, the result, and the lines on stderr."""
        process = self.begin(*more, "--json")
        out, told = process.communicate(timeout=60)
        return process.returncode, json.loads(out), told.splitlines()

    def end_in_the_middle(self, number: int) -> tuple[str, str]:
        """Once a check is finished: stdout, and the rest of stderr."""
        process = self.begin()
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("3 of 4:"):
                process.send_signal(number)
                break
        out, told = process.communicate(timeout=60)
        assert process.returncode == (130 if number in (signal.SIGINT, signal.SIGTERM) else -number)
        return out, told

    @property
    def results(self) -> list[dict[str, Any]]:
        files = (self.home / ".local" / "state" / "stoker" / "results").glob("*.json")
        return [json.loads(file.read_text()) for file in sorted(files)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    try:
        yield found
    finally:
        found.end()


def outcomes(run: dict[str, Any]) -> list[str]:
    return [one["outcome"] for one in run["findings"]]


def test_a_line_says_which_check_is_under_way_and_json_is_alone_on_stdout(place: Place) -> None:
    code, run, told = place.run()
    assert (code, outcomes(run)) == (0, ["passed"] * 4)
    steps = ["1 of 4: model", "2 of 4: special-tokens", "3 of 4: usage", "4 of 4: frames"]
    assert told[:5] == ["asking some about itself", *steps]
    assert "\x1b" not in "".join(told)


def test_ctrl_c_says_what_is_kept_and_what_goes_on_and_that_does(place: Place) -> None:
    out, told = place.end_in_the_middle(signal.SIGINT)
    assert "some: interrupted" in out
    again = f"stoker eval preflight --base-url {place.url} {' '.join(ONLY)} --resume"
    assert f"2 of 4 checks are kept; to go on: {again}" in told
    [kept] = place.results
    assert (kept["outcome"], outcomes(kept)[:2]) == ("interrupted", ["passed", "passed"])
    code, run, told_then = place.run("--resume")
    assert (code, run["id"], outcomes(run)) == (0, kept["id"], ["passed"] * 4)
    assert told_then[0].startswith(f"2 of 4 checks are taken from {kept['id']} (")
    assert "not known whether the model is the same" in told_then[0]
    assert [line for line in told_then if " of 4: " in line] == ["3 of 4: usage", "4 of 4: frames"]
    assert [one["outcome"] for one in place.results] == ["passed"], "the part became the whole"


def test_after_kill_9_everything_finished_is_there(place: Place) -> None:
    place.end_in_the_middle(signal.SIGKILL)
    [kept] = place.results
    assert (kept["outcome"], outcomes(kept)) == ("interrupted", ["passed", "passed", "interrupted", "interrupted"])
    _, run, told = place.run()
    assert "2 of 4 checks of an interrupted preflight are kept; to go on: stoker eval" in told[0]
    assert run["id"] != kept["id"], "without --resume it begins anew"
    _, run, told = place.run("--resume")
    assert told[0] == "stoker: there is no interrupted preflight of some: all checks are asked", "one is whole since"


@pytest.mark.parametrize("more", [("--context", "2222"), ()], ids=["another engine", "other options"])
def test_what_changed_since_is_measured_anew(place: Place, more: tuple[str, ...]) -> None:
    place.end_in_the_middle(signal.SIGINT)
    [kept] = place.results
    if more:
        place.end()
        place.server = place.serve("--engine", "llama.cpp", *more)
    _, run, told = place.run("--resume", *(() if more else ("--needle-ctx", "100")))
    assert (run["id"] != kept["id"], outcomes(run)) == (True, ["passed"] * 4)
    assert told[0].startswith(f"stoker: nothing of {kept['id']} (")
    assert told[0].endswith(": all checks are asked")
    assert ("reported.context: 4096 -> 2222" if more else "other options: needle_ctx") in told[0]
