"""Measuring a serve of a running Stoker from the command line: canaries, their baselines, and a soak with mishaps."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, poll, running, serve

from stoker_lab.testing.script.script import Script


def said(text: str) -> list[dict[str, Any]]:
    """One word for each question of the canary (all have an h or an i), and the pace for the stories of the rest."""
    return [{"when": letter, "cut": 0, "blocks": [{"type": "text", "text": text}]} for letter in "hi"]


PACE = Script(gap=0.02, tokens=12, answers=said("fine"))
WRONG = [{"when": "capital of France", "blocks": [{"type": "text", "text": "London"}]}, *said("fine")]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF weights")
    return path


def measured(weights: Path, **keys: object) -> str:
    """A scripted serve that has an identity: a file of weights, and the paths of llama.cpp."""
    return serve("a", PACE, engine="llama.cpp", model=str(weights), **keys)


def run(plane: Plane, *words: str) -> tuple[int, str, str]:
    done = plane.run(*words, timeout=50)
    return done.returncode, done.stdout, done.stderr


def cycles(plane: Plane) -> int:
    """As the state file of the soak has them."""
    try:
        return len(json.loads((plane.state / "soak" / "a.json").read_bytes())["cycles"])
    except FileNotFoundError:
        return 0


def answered_wrongly_once(plane: Plane) -> None:
    """The model is told a wrong answer, slowly, and told back as soon as the question has come."""

    def asked() -> int:
        return sum("capital of France" in (one["body"] or "") for one in plane.received("a", "/v1/chat/completions"))

    before = asked()
    plane.scripted("a", answers=WRONG, first_event_after=0.7)
    poll(lambda: asked() > before, "the question comes")
    plane.scripted("a", answers=said("fine"), first_event_after=0.0)


@pytest.mark.heavy
@pytest.mark.timeout(90)
def test_a_soak_of_eight_cycles_shows_an_anomaly_and_a_death_of_the_engine(weights: Path) -> None:
    with running(measured(weights)) as plane:
        assert plane.admin("switch", serve="a")[0] == 200
        words = ("--for", "28s", "--every", "3500ms", "--concurrency", "4", "--tokens", "12", "--json")
        soak = plane.begin("eval", "soak", "a", *words)
        try:
            poll(lambda: cycles(plane) == 2, "two cycles are over")
            answered_wrongly_once(plane)
            code, _, said = run(plane, "eval", "canary", "a", "--record")
            assert (code, f"a soak of a (process {soak.pid}" in said) == (1, True), said
            poll(lambda: cycles(plane) == 5, "five cycles are over")
            os.kill(plane.serve("a")["pid"], signal.SIGKILL)
            out, err = soak.communicate(timeout=50)
        finally:
            soak.kill()
            soak.communicate()
        assert soak.returncode == 1, err  # an engine that dies is no pass
        told: dict[str, Any] = json.loads(out)
        numbers = told["numbers"]
        assert numbers["cycles"] + numbers["missed"] == 8, "a machine with no time for us may miss one, and says so"
        assert numbers["cycles"] >= 6
        assert numbers["engine_deaths"] == 1
        assert numbers["anomalies_staying"] == 0
        report = "\n".join(told["timeline"])
        assert "capital: the reply differs after 0 of" in report
        assert "0 of 3 repeats and 0 of 25 more differed: it happened once" in report
        assert "engine died: process" in report
        assert re.search(r"excluded: cycle [34] \(anomaly: capital", report)
        names = {finding["name"] for finding in told["findings"]}
        assert "engine_died" in names
        assert names & {"cycle-3.capital", "cycle-4.capital"}
        assert numbers["clean"] == numbers["cycles"] - numbers["excluded"] < numbers["cycles"]
        kept = json.loads((plane.state / "results" / f"{told['id']}.json").read_bytes())
        assert len(kept["raw"]["cycles"]) == numbers["cycles"]
        assert not (plane.state / "soak" / "a.json").exists()
        code, out, _ = run(plane, "results", "list", "--kind", "soak", "--json")
        assert [entry["id"] for entry in json.loads(out)] == [told["id"]]


@pytest.mark.heavy
@pytest.mark.timeout(90)
def test_a_soak_goes_on_after_its_own_death(weights: Path) -> None:
    with running(measured(weights)) as plane:
        assert plane.admin("switch", serve="a")[0] == 200
        words = ("eval", "soak", "a", "--for", "14s", "--every", "1s", "--concurrency", "2", "--tokens", "12")
        soak = plane.begin(*words)
        try:
            poll(lambda: cycles(plane) >= 2, "two cycles are over")
        finally:
            soak.kill()
            soak.communicate()
        before = weights.read_bytes()
        weights.write_bytes(b"GGUF other weights")
        code, _, err = run(plane, "eval", "soak", "a", "--resume")  # a cycle is missed meanwhile
        assert (code, "changed since (model: sha256:" in err) == (1, True), err
        weights.write_bytes(before)
        seen = cycles(plane)
        soak = plane.begin("eval", "soak", "a", "--resume")
        try:
            poll(lambda: cycles(plane) > seen, "it goes on")
            soak.terminate()
            out, _ = soak.communicate(timeout=30)
        finally:
            soak.kill()
            soak.communicate()
        assert (soak.returncode, "interrupted; saved as" in out) == (130, True)
        code, out, err = run(plane, "eval", "soak", "a", "--resume")
        assert code == 0, err
        assert "resumed:" in out
        run_id = out.rsplit("saved as ", 1)[1].strip()
        kept = json.loads((plane.state / "results" / f"{run_id}.json").read_bytes())
        assert kept["outcome"] == "passed"
        assert kept["numbers"]["cycles"] + kept["numbers"]["missed"] == 14
        missed = kept["numbers"]["missed"]  # in any of the three lives
        assert (f"missed: {missed} cycle" in out) == (missed > 0)
        assert kept["settings"]["every"] == 1.0
        code, _, err = run(plane, "eval", "soak", "a", "--resume")
        assert (code, "no interrupted soak" in err) == (2, True)


def test_a_soak_starts_its_cycles_on_a_fixed_grid_and_ends_at_its_deadline(weights: Path) -> None:
    """Behaviour 56, in seconds instead of minutes."""
    with running(measured(weights)) as plane:
        assert plane.admin("switch", serve="a")[0] == 200
        words = ("--for", "7500ms", "--every", "1250ms", "--concurrency", "2", "--tokens", "5", "--json")
        code, out, err = run(plane, "eval", "soak", "a", *words)
        assert code == 0, err
        told = json.loads(out)
        kept = json.loads((plane.state / "results" / f"{told['id']}.json").read_bytes())["raw"]
        assert len(kept["cycles"]) + told["numbers"]["missed"] == 6
        lags = [cycle["elapsed"] - 1.25 * (cycle["number"] - 1) for cycle in kept["cycles"]]
        assert all(0 <= lag < 1.25 for lag in lags), "late or not, each is where the grid has it"
        assert 7.5 <= kept["events"][-1]["elapsed"] < 8.75


@pytest.mark.timeout(90)
def test_a_baseline_counts_across_a_change_of_execution_and_is_refused_across_one_of_identity(weights: Path) -> None:
    """Behaviours 55 and 57, on the command line."""
    with running(measured(weights)) as plane:
        assert plane.admin("switch", serve="a")[0] == 200
        code, _, err = run(plane, "eval", "canary", "a")
        assert (code, "eval canary a --config" in err, "--record" in err) == (2, True, True), err
        assert run(plane, "eval", "canary", "a", "--record")[0] == 0
        assert run(plane, "eval", "canary", "a")[0] == 0

        plane.write(plane.config.read_text().replace('name = "a"', 'name = "a"\ncontext = 4096'))
        assert run(plane, "reload")[0] == 0
        assert plane.admin("switch", serve="a")[0] == 200
        code, out, err = run(plane, "eval", "canary", "--json")
        assert code == 0, err
        after = json.loads(out)
        assert json.loads((plane.state / "results" / f"{after['id']}.json").read_bytes())["settings"][
            "same_execution"
        ] is False  # fmt: skip

        plane.scripted("a", answers=said("otherwise"))
        code, out, _ = run(plane, "eval", "canary", "a", "--json")
        assert code == 1
        assert json.loads(out)["outcome"] == "failed"
        plane.scripted("a", answers=said("fine"))

        weights.write_bytes(b"GGUF other weights")
        code, _, err = run(plane, "eval", "canary", "a")
        assert (code, "model: sha256:" in err) == (1, True), err

        code, out, _ = run(plane, "results", "list", "--kind", "canary", "--json")
        newest, *_, first = [entry["id"] for entry in json.loads(out)]
        code, out, _ = run(plane, "results", "compare", first, newest)
        assert code == 0
        assert "context: none -> 4096" in out
        assert run(plane, "results", "show", newest[-4:])[0] == 0


def test_a_serve_that_does_not_run_is_named_with_the_command_that_starts_it(weights: Path) -> None:
    with running(measured(weights)) as plane:
        code, _, err = run(plane, "eval", "canary", "a")
        assert (code, f"stoker serves up a --config {plane.config}" in err) == (2, True)
        code, _, err = run(plane, "eval", "canary", "b")
        assert (code, "no serve 'b'" in err) == (2, True)
        plane.signal(signal.SIGTERM)
        plane.exit_code()
        code, _, err = run(plane, "eval", "soak", "a")
        assert (code, f"stoker up --config {plane.config}" in err) == (2, True)
