"""The shipped models through the real llama.cpp: whole they pass, broken they fail naming what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.lab.preflight.crushed import crush
from tests.lab.preflight.proving import MODELS, behind, engine, failed, needs_llama, outcomes, prove

from stoker.domain.run import Outcome
from stoker_lab.preflight.table import NAMES
from stoker_lab.testing.faults.grafts import GRAFTS
from stoker_lab.testing.faults.table import FAULTS, NONE

pytestmark = needs_llama
TEMPLATE = Path(__file__).resolve().parents[3] / "training" / "chat_template.jinja"


def test_ember_passes_every_gate_that_applies_within_a_minute(ember: int) -> None:
    run = prove(ember)
    assert failed(run) == {}
    assert (run.outcome, run.seconds < 60) == (Outcome.PASSED, True)
    assert list(outcomes(run)) == list(NAMES)
    none = {name for name, outcome in outcomes(run).items() if outcome == "not-applicable"}
    assert none == {"tool-parallel", "tool-descriptions", "image", "embeddings"}
    assert run.numbers["needle.passed"] == run.numbers["needle.n"] == 18
    assert run.numbers["tools.passed"] == run.numbers["tools.n"]
    assert run.numbers["gates.passed"] == run.numbers["gates.n"] == len(NAMES) - 4


def test_spark_passes_what_it_was_taught_and_misses_long_needles(spark: int) -> None:
    """Its known inability is in the wording: short needles only. Asked for long ones, it fails, and that is true."""
    assert failed(prove(spark, "spark")) == {}
    long = failed(prove(spark, "spark", ["needle"], needle_ctx=1200))
    assert list(long) == ["needle"]
    assert "of 12 found" in long["needle"].observed


def test_a_plain_proxy_with_every_graft_is_no_fault(ember: int) -> None:
    run = behind(ember, NONE, ["thinking", "image", "tool-parallel", "frames", "usage"], list(GRAFTS.values()),
                 ignore_known_gaps=True)  # fmt: skip
    assert set(outcomes(run).values()) == {"passed"}, failed(run)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.share == 1])
def test_each_fault_is_named_by_its_gate(name: str, request: pytest.FixtureRequest) -> None:
    """Only the checks that should name it are run: one of them fails, with a cause and a fix."""
    fault = FAULTS[name]
    fault = fault._replace(delay=0.25 if fault.delay else 0.0)
    grafts = [GRAFTS[graft] for graft in fault.needed_abilities]
    port: int = request.getfixturevalue("embedder" if fault.needs_embeddings else "ember")
    if fault.needs_embeddings:
        fault = fault._replace(request=chat_refused)  # of a model that also answers chat, not all is judged
    closes_gap = bool({"parallel", "descriptions"} & set(fault.needed_abilities))
    run = behind(port, fault, sorted(fault.checks), grafts, ignore_known_gaps=closes_gap)
    found = failed(run)
    assert found, {one.name: one.observed for one in run.findings}
    assert all(one.cause and one.fix and one.observed for one in found.values())


def chat_refused(path: str, document: dict[str, Any]) -> None:
    document["messages"] = [{"role": "user", "content": "too long " * 20_000}]


def test_embeddings_of_the_engine_are_in_order_and_near_texts_are_nearer(embedder: int) -> None:
    assert outcomes(prove(embedder, only=["embeddings"])) == {"embeddings": "passed"}


# -- broken variants of the model itself ----------------------------------------------------------------------------


FOREIGN = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)


def test_another_models_template_is_named(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.jinja"
    foreign.write_text(FOREIGN)
    with engine(MODELS / "ember.gguf", "--chat-template-file", str(foreign)) as port:
        found = failed(prove(port, only=["template", "echo", "eos"]))
    assert "not a token of this model" in found["template"].observed
    assert "another model" in found["template"].cause
    with engine(MODELS / "ember.gguf", "--chat-template", "llama3") as port:
        assert "template" in failed(prove(port, only=["template"]))


def test_a_template_that_knows_no_tools_is_named(tmp_path: Path) -> None:
    """Calls that the engine does not know as such come as text."""
    odd = tmp_path / "odd.jinja"
    odd.write_text(TEMPLATE.read_text().replace("<tool_call>", "<use>").replace("</tool_call>", "</use>"))
    with engine(MODELS / "ember.gguf", "--chat-template-file", str(odd)) as port:
        found = failed(prove(port, only=["echo", "tool-single"]))
    assert list(found) == ["tool-single"]
    assert "tool parser" in found["tool-single"].cause


@pytest.mark.parametrize(
    ("options", "checks"),
    [({"context": 2048}, ["model"]), ({"needle_ctx": 1500}, ["needle"])],
    ids=["promised", "asked-for"],
)
def test_a_truncated_context_is_named(options: dict[str, object], checks: Sequence[str]) -> None:
    with engine(MODELS / "ember.gguf", context=512) as port:
        found = failed(prove(port, only=checks, **options))
    assert list(found) == list(checks)
    assert "512" in found[checks[0]].observed


@pytest.mark.skipif(find_spec("gguf") is None, reason="`gguf`, which writes the weights, is not installed")
def test_weights_of_two_bits_are_named(tmp_path: Path) -> None:
    path = tmp_path / "ember.gguf"
    crush(MODELS / "ember.gguf", path)
    with engine(path) as port:
        found = failed(prove(port, only=["model", "template", "echo", "corruption"]))
    assert "echo" in found
    assert not {"model", "template"} & set(found)
    assert "weights" in found["echo"].cause
