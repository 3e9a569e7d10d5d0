"""A model beside the built-in classifier: on once it has beaten what was learned, and off as long as it has not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.scenarios.plane import MODELS, Plane, poll, running, serve

from stoker_auto.classifier.labelled_prompts import held_out
from stoker_auto.classifier.question import HEAD, TAIL
from stoker_auto.classify.asks import closely
from stoker_lab.testing.script.script import Script

ROUTER = """
[router]
high_risk = []
[router.classifier]
serve = "teller"
below = 1
timeout = "2s"
[[tier]]
name = "a"
serve = "a"
"""
NEW = "Tell me of the nineteen quokkas of Zanzibar"


def says(word: str, **more: str) -> dict[str, Any]:
    return {"blocks": [{"type": "text", "text": f'```json\n{{"class": "{word}"}}\n```'}], **more}


def knows() -> list[dict[str, Any]]:
    """Each label; and of a prompt that nobody has labelled what the built-in classifier would never say."""
    rows = [says(row.task_class, when=f">\n{closely(row.outline.text, HEAD, TAIL)}\n</request") for row in held_out()]
    return [*rows, says("creative")]


@contextmanager
def told(tmp_path: Path, answers: list[dict[str, Any]], router: str = ROUTER) -> Iterator[Plane]:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(answers))
    command = [*Script(id="teller").command("{port}"), "--answers", str(path)]
    teller = serve("teller", engine="llama.cpp", model=str(MODELS / "spark.gguf"), slot="side", cmd=command)
    with running(serve("a"), teller, router, slots="[slots.gpu0]\n[slots.side]") as plane:
        yield plane


def said(plane: Plane, *words: str, code: int = 0) -> str:
    done = plane.run(*words, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def classifier(plane: Plane) -> dict[str, Any]:
    return dict(plane.status()["routing"]["classifier"])


def asked(plane: Plane) -> dict[str, Any]:
    """What routing made of one new request."""
    before = len(plane.decisions())
    document = {"model": "auto", "messages": [{"role": "user", "content": NEW}]}
    assert plane.ask("POST", "/v1/chat/completions", document)[0] == 200
    poll(lambda: len(plane.decisions()) > before, "it is recorded")
    return dict(plane.decisions(1)[0]["routed"])


def test_a_model_that_knows_the_labels_wins_is_on_and_decides(tmp_path: Path) -> None:
    with told(tmp_path, knows()) as plane:
        assert "the classifier's serve 'teller' is off: it was not measured; `stoker eval classifier teller`" in (
            plane.said()
        )
        assert classifier(plane)["why"] == "it was not measured"
        assert asked(plane)["source"] == "learned"
        table = said(plane, "eval", "classifier", "teller")
        assert f"answered {len(held_out())} of {len(held_out())} held-out prompts" in table
        assert "on: it is asked if" in table
        poll(lambda: classifier(plane)["on"], lambda: f"it is on: {classifier(plane)}")
        routed = asked(plane)
        assert (routed["task"], routed["source"], routed["notes"][0]) == ("creative", "model", "model:creative")
        assert "by the classifier model (model:creative, learned:" in said(plane, "route", NEW)
        assert classifier(plane)["asked"] == {"answered": 2}
        assert 'stoker_classifier_asked_total{outcome="answered"} 2.0' in str(plane.ask("GET", "/metrics")[1])
        for path in plane.state.rglob("*.jsonl"):
            assert b"quokkas" not in path.read_bytes()


def test_a_model_that_guesses_loses_and_stays_off(tmp_path: Path) -> None:
    with told(tmp_path, [says("chat")]) as plane:
        table = said(plane, "eval", "classifier", code=1)
        assert "off: its mistakes cost" in table
        found = classifier(plane)
        assert (found["on"], found["why"][:18]) == (False, "its mistakes cost ")
        assert asked(plane)["source"] == "learned"
        assert found["asked"] == {}
        again = json.loads(said(plane, "eval", "classifier", "--json", code=1))
        assert again["total"] == again["asked"] == len(held_out())
        assert len(plane.received("teller", "/v1/chat/completions")) == len(held_out()), "nothing was asked twice"


def test_one_that_runs_and_was_measured_already_is_on_with_the_reload_that_configures_it(tmp_path: Path) -> None:
    with told(tmp_path, knows(), "[router]\n" + ROUTER[ROUTER.index("[[tier]]") :]) as plane:
        assert 'set serve = "teller" in' in said(plane, "eval", "classifier", "teller")
        assert plane.status()["routing"]["classifier"] is None
        plane.write(plane.config.read_text().replace("[router]\n", ROUTER[: ROUTER.index("[[tier]]")]))
        said(plane, "reload")
        poll(lambda: classifier(plane)["on"], lambda: f"it is on: {classifier(plane)}")
        assert asked(plane)["source"] == "model"
        assert "the classifier's serve" not in plane.said()


def test_it_outlives_a_restart_and_another_model_under_the_same_name_is_off(tmp_path: Path) -> None:
    with told(tmp_path, knows()) as plane:
        said(plane, "eval", "classifier", "teller")
        plane.signal(15)
        assert plane.exit_code() == 0
        printed = len(plane.said())
        plane.start()
        assert "the classifier's serve" not in plane.said()[printed:], "nobody has to do anything"
        assert classifier(plane)["why"] == "it is not loaded, or not identified yet"
        assert asked(plane)["notes"][0] == "model_not_loaded"
        assert plane.serve("teller")["state"] == "stopped", "nothing is loaded for this"
        assert plane.admin("switch", serve="teller")[0] == 200
        poll(lambda: classifier(plane)["on"], lambda: f"it is on: {classifier(plane)}")
        assert asked(plane)["source"] == "model"

        plane.write(plane.config.read_text().replace("spark.gguf", "ember.gguf"))
        said(plane, "reload")
        assert plane.admin("unload", serve="teller")[0] == 200
        assert plane.admin("switch", serve="teller")[0] == 200
        poll(lambda: classifier(plane)["why"] == "it changed since it was measured", lambda: str(classifier(plane)))
        assert (
            plane.said().count("'teller' is off: it changed since it was measured; `stoker eval classifier tell") == 1
        )
        routed = asked(plane)
        assert (routed["source"], routed["notes"][0].partition(":")[0]) == ("learned", "ask")
