"""May this model serve under that alias? The whole one may; a broken one may not, and the reason is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import MODELS, Plane, llama, running, serve

from stoker_lab.testing.script.script import Script

GATE = """
[gate.default]
conditions = ["preflight", "model.context >= 2048", "tools.lower >= 0.5"]

[gate.quick]
conditions = ["preflight", "c4.ttft_p50 < 20s", "soak"]

[alias.coder]
serve = "other"
gate = "default"
watch = "0s"

[alias.loose]
serve = "other"
"""
TEMPLATE = Path(__file__).resolve().parents[3] / "training" / "chat_template.jinja"
pytestmark = [
    pytest.mark.llama,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed"),
]


@contextmanager
def with_ember(model: str = "ember", **keys: object) -> Iterator[Plane]:
    given = {"context": 2048, "parallel": 4, "slot": None, **keys}
    with running(llama("ember", model, **given), serve("other", Script(), slot=None), GATE) as plane:
        assert plane.admin("switch", serve="ember")[0] == 200
        yield plane


def said(plane: Plane, *words: str) -> tuple[int, str, str]:
    done = plane.run(*words, timeout=55)
    return done.returncode, done.stdout, done.stderr


def judged(plane: Plane, *words: str) -> dict[str, Any]:
    code, out, told = said(plane, "gate", "ember", *words, "--json")
    run: dict[str, Any] = json.loads(out)
    assert code == (0 if run["outcome"] == "passed" else 1), told
    return run


def outcomes(run: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["outcome"] for one in run["findings"]}


@pytest.mark.heavy
def test_the_whole_model_passes_what_is_missing_is_measured_once_and_the_alias_moves_on_it() -> None:
    with with_ember() as plane:
        code, out, told = said(plane, "gate", "ember", "--for", "coder")
        assert code == 0, out + told
        assert "passed gate default, 3 of 3 conditions" in out
        command = next(line for line in told.splitlines() if line.startswith("now: stoker promote coder ember"))
        evidence = command.split()[-1]
        again = judged(plane, "--for", "coder")
        assert (again["outcome"], again["seconds"] < 2) == ("passed", True), "nothing was measured twice"
        code, _, told = said(plane, "promote", "coder", "ember", "--evidence", evidence)
        assert code == 0, told
        (_, found) = plane.ask("GET", "/status")
        assert next(one["serve"] for one in found["aliases"] if one["alias"] == "coder") == "ember"
        quick = judged(plane, "--gate", "quick")
        assert outcomes(quick) == {"preflight": "passed", "c4.ttft_p50 < 20s": "passed", "soak": "undecided"}
        assert "stoker eval soak ember" in quick["findings"][2]["fix"]
        code, _, told = said(plane, "promote", "coder", "ember", "--evidence", quick["id"])
        assert code == 1
        for words, why in (
            (("ember", "--for", "coda"), "known: coder, loose"),
            (("ember", "--for", "loose"), "has no `gate`"),
            (("ember",), "--for ALIAS or --gate NAME"),
            (("ember", "--gate", "none"), "known: default, quick"),
            (("other", "--gate", "default"), "start it: stoker serves up other"),
            (("nosuch", "--gate", "default"), "there is no serve"),
        ):
            code, _, told = said(plane, "gate", *words)
            assert (code, why in told) == (2, True), told


def broken(kind: str, directory: Path) -> dict[str, Any]:
    if kind == "template":
        foreign = directory / "foreign.jinja"
        foreign.write_text("{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|assistant|>")
        return {"chat_template": str(foreign)}
    if kind == "parser":
        odd = directory / "odd.jinja"
        odd.write_text(TEMPLATE.read_text().replace("<tool_call>", "<use>").replace("</tool_call>", "</use>"))
        return {"chat_template": str(odd)}
    if kind == "context":
        return {"context": 512}
    from tests.lab.preflight.crushed import crush

    crush(MODELS / "ember.gguf", directory / "crushed.gguf")
    return {"model": str(directory / "crushed")}


@pytest.mark.parametrize(
    ("kind", "failed", "named"),
    [
        pytest.param("template", "preflight", "template", id="wrong-template", marks=pytest.mark.heavy),
        pytest.param("parser", "preflight", "tool-single", id="parser-off", marks=pytest.mark.heavy),
        pytest.param("context", "model.context >= 2048", "512", id="truncated-context", marks=pytest.mark.heavy),
        pytest.param(
            "weights", "preflight", "echo", id="weights-of-two-bits",
            marks=[
                pytest.mark.heavy,
                pytest.mark.skipif(find_spec("gguf") is None, reason="`gguf` is not installed"),
            ],
        ),
    ],
)  # fmt: skip
def test_a_broken_one_fails_and_the_condition_is_named(kind: str, failed: str, named: str, tmp_path: Path) -> None:
    with with_ember(**broken(kind, tmp_path)) as plane:
        run = judged(plane, "--for", "coder")
        finding = next(one for one in run["findings"] if one["name"] == failed)
        assert (run["outcome"], finding["outcome"]) == ("failed", "failed")
        assert named in finding["seen"]
        code, _, told = said(plane, "promote", "coder", "ember")
        assert (code, f"failed: {failed}" in told or failed in told) == (1, True)


LONG = """
[gate.long]
conditions = ["context >= 1024"]

[gate.longer]
conditions = ["context >= 4096"]
"""


@pytest.mark.heavy
def test_a_context_search_counts_for_the_serve_whatever_limit_it_runs_with() -> None:
    with running(llama("m", context=512), LONG) as plane:
        command = f"stoker eval context m --config {plane.config}"

        def searched(most: int) -> None:
            assert plane.admin("unload", serve="m")[0] == 200
            code, _, told = said(plane, *command.split()[1:4], "--from", "512", "--to", str(most))
            assert code == 0, told
            assert plane.admin("switch", serve="m")[0] == 200

        def finding(name: str) -> dict[str, Any]:
            (found,) = json.loads(said(plane, "gate", "m", "--gate", name, "--json")[1])["findings"]
            return dict(found)

        assert plane.admin("switch", serve="m")[0] == 200
        first = finding("long")
        assert (first["outcome"], first["fix"]) == ("undecided", f"measure it first: {command}")
        searched(1024)
        assert finding("long")["outcome"] == "passed"
        longer = finding("longer")
        assert (longer["outcome"], longer["fix"]) == ("undecided", f"measure it again: {command}")
        assert longer["seen"] == "context = 1024, and no longer context was tried"
        searched(4096)
        longer = finding("longer")
        assert (longer["outcome"], longer["seen"]) == ("failed", "context = 2048")
        plane.write(plane.config.read_text().replace("context = 512", "context = 2048"))
        assert plane.admin("reload")[0] == 200
        assert plane.admin("switch", serve="m")[0] == 200
        assert finding("long")["outcome"] == "passed", "what was found was written into the configuration"


DECIDABLE = """
[gate.fast]
conditions = ["ttft_p95 < 100ms", "c2.ttft_p50 < 1s"]

[gate.refused]
conditions = ["ttft_p90 < 1s", "code-write.lower >= 0.95"]

[gate.own]
conditions = ["tpot_p50 < 1s", "ttft_p50 < 1s", "context >= 1024"]

[gate.work]
conditions = ["math-short.lower >= 0.8"]

[alias.coder]
serve = "a"
gate = "work"

[alias.writer]
serve = "auto:code-write"

[[tier]]
name = "local"
serve = "a"
"""


@pytest.mark.heavy
def test_a_gate_runs_what_its_conditions_take_and_a_slower_serve_fails_it() -> None:
    with running(serve("a", Script(first_event_after=0.01)), DECIDABLE) as plane:
        assert plane.admin("switch", serve="a")[0] == 200

        def gated(*words: str) -> tuple[int, dict[str, Any], str]:
            code, out, told = said(plane, "gate", "a", *words, "--json")
            return code, json.loads(out), told

        code, run, told = gated("--gate", "fast")
        assert (code, run["outcome"]) == (0, "passed"), told
        assert "requests needed: c1 60, c2 10" in told
        plane.scripted("a", first_event_after=0.16)
        code, run, told = gated("--gate", "fast", "--unknown-ok")
        assert (code, outcomes(run)) == (1, {"ttft_p95 < 100ms": "failed", "c2.ttft_p50 < 1s": "passed"}), told
        code, run, told = gated("--gate", "refused")
        assert (code, run["error"]["code"]) == (2, "undecidable")
        assert "60 requests" in told
        assert "needs 73 samples" in told
        plane.scripted("a", first_event_after=0.0)
        code, run, told = gated("--for", "coder")
        assert (code, run["findings"][0]["seen"]) == (1, "0 of 60, 95 % interval 0.000 to 0.060"), told
        assert run["settings"]["proposed"] == ["code-write.lower >= 0.8"]


@pytest.mark.heavy
def test_the_gate_of_a_serve_that_others_run_can_be_finished() -> None:
    external = serve("a", None, cmd=None, slot=None, base_url="http://127.0.0.1:EXTERNAL/v1", parallel=None,
                     stop_grace=None)  # fmt: skip
    with (
        running(serve("other", Script(usage=False)), started=True) as elsewhere,
        running(external.replace("EXTERNAL", str(elsewhere.port)), DECIDABLE) as plane,
    ):
        assert elsewhere.admin("switch", serve="other")[0] == 200
        plane.write(plane.config.read_text().replace('name = "a"\n', 'name = "a"\nserved_name = "other"\n', 1))
        assert plane.admin("reload")[0] == 200
        assert plane.admin("switch", serve="a")[0] == 200
        code, out, told = said(plane, "gate", "a", "--gate", "own", "--json")
        assert (code, outcomes(json.loads(out))) == (
            1, {"tpot_p50 < 1s": "undecided", "ttft_p50 < 1s": "passed", "context >= 1024": "undecided"},
        ), told  # fmt: skip
        command = f"stoker gate a --config {plane.config} --gate own --unknown-ok"
        assert command in told
        assert command in json.loads(out)["findings"][0]["fix"]
        code, out, told = said(plane, *command.split()[1:], "--json")
        run = json.loads(out)
        assert (code, run["outcome"]) == (0, "passed"), told
        assert run["settings"]["set_aside"] == ["tpot_p50 < 1s", "context >= 1024"]
        assert run["settings"]["unknown_ok"] is True
        assert "model" in run["settings"]["unknown_identity"]
        assert "and ignored" in run["findings"][0]["seen"]
