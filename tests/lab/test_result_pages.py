"""GET /admin/results: what was measured, for whom it is, and that nothing else is read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.access.caller import Caller
from stoker.domain.errors import ClientError
from stoker.domain.gate import Gate, condition
from stoker.domain.key import Key, Scope
from stoker.domain.run import Finding, Fingerprint, Number, Outcome, Run, RunKind, Subject
from stoker.domain.serve import Secret
from stoker.gateway.results import ResultPages
from stoker.store.results import Results
from stoker_lab.artifacts import result_file
from stoker_lab.comparison.runs import comparison_document

BOSS, EYE, APP = (
    Caller(Key(scope.name, Secret(scope.name, "env:K"), scope))
    for scope in (Scope.ADMIN, Scope.OBSERVE, Scope.INFERENCE)
)
GATE = Gate("default", (condition("preflight"), condition("ttft_p95 < 2s")))


class Shelf:
    """Results in a folder, and the pages about them."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "results"
        self.results = Results(state)
        self.gates: tuple[Gate, ...] = (GATE,)

    def put(
        self, kind: RunKind, serve: str = "a", at: float = 1000.0, numbers: dict[str, Number] | None = None,
        outcome: Outcome = Outcome.PASSED, findings: tuple[Finding, ...] = (), **settings: object,
    ) -> Run:  # fmt: skip
        mark = Fingerprint("", "e", {"command": f"engine --port 1 {at:g}"})
        subject = Subject(serve, serve, "http://10.0.0.7/v1", fingerprint=mark)
        run = Run(
            result_file.new_id(kind, serve, at), kind, at, 1.0, subject, outcome, list(findings), numbers or {},
            result_file.raws(settings), result_file.raws({"host": "secret-host"}), result_file.raw(["sample"] * 10),
        )  # fmt: skip
        result_file.save(run, self.folder)
        return run

    def get(self, rest: str = "", caller: Caller = EYE, method: str = "GET", **query: str) -> dict[str, Any]:
        async def asked() -> dict[str, Any]:
            return await ResultPages(self.results, lambda: self.gates).handle(caller, method, rest, query)

        return asyncio.run(asked())

    def refused(self, rest: str = "", caller: Caller = EYE, method: str = "GET", **query: str) -> ClientError:
        with pytest.raises(ClientError) as caught:
            self.get(rest, caller, method, **query)
        return caught.value


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_results_of_any_process_are_listed_newest_first_by_kind_serve_and_outcome(shelf: Shelf) -> None:
    first = shelf.put(RunKind.BENCHMARK, at=1000.0)
    second = shelf.put(RunKind.GATE, "b", at=2000.0, outcome=Outcome.FAILED)
    (shelf.folder / "broken.json").write_text("{")
    found = shelf.get()
    assert [one["id"] for one in found["results"]] == [second.id, first.id]
    assert found["unreadable"] == 1
    for query in ({"kind": "gate"}, {"serve": "b"}, {"outcome": "failed"}, {"limit": "1"}):
        assert [one["id"] for one in shelf.get(**query)["results"]] == [second.id], query
    for query in ({"kind": "no"}, {"outcome": "no"}, {"limit": "-1"}):
        assert shelf.refused(**query).code == "bad_field", query


def test_one_result_comes_without_its_samples_and_how_a_serve_is_started_is_for_admin(shelf: Shelf) -> None:
    run = shelf.put(RunKind.BENCHMARK, numbers={"ttft_p50": 12.5}, prompt_tokens=512, env="TOKEN")
    seen = shelf.get(run.id)
    assert (seen["numbers"], seen["settings"]) == ({"ttft_p50": 12.5}, {"prompt_tokens": 512})
    text = msgspec.json.encode(seen).decode()
    for hidden in ("sample", "10.0.0.7", "engine --port", "secret-host", "TOKEN"):
        assert hidden not in text, hidden
    whole = shelf.get(run.id, BOSS)
    assert whole["subject"]["fingerprint"]["parts"] == run.subject.fingerprint.parts
    assert (whole["machine"], whole["settings"]["env"]) == ({"host": "secret-host"}, "TOKEN")
    assert "raw" not in whole


@pytest.mark.parametrize(
    "wanted", ["../decoy", "..", ".", "", "/etc/passwd", "a/../../decoy", "x\0", "%2e%2e", "..\\decoy", "no", "a" * 300]
)
def test_nothing_but_results_is_ever_read(shelf: Shelf, wanted: str) -> None:
    run = shelf.put(RunKind.BENCHMARK)
    (shelf.folder.parent / "decoy.json").write_bytes(msgspec.json.encode(run))
    error = shelf.refused("compare", a=run.id, b=wanted)
    assert (error.status, error.code, error.param) == (404, "unknown_result", "b")
    if wanted:
        assert shelf.refused(wanted).code == "unknown_result"


def test_two_are_compared_as_the_command_does_it(shelf: Shelf) -> None:
    numbers: dict[str, Number] = {"output_rate": 50.0, "output_rate.low": 49.0, "output_rate.high": 51.0}
    before = shelf.put(RunKind.BENCHMARK, at=1000.0, numbers=numbers)
    after = shelf.put(
        RunKind.BENCHMARK, at=2000.0, numbers={name: value * 2 for name, value in numbers.items() if value}
    )
    found = shelf.get("compare", BOSS, a=before.id, b=after.id)
    assert msgspec.json.encode(found) == msgspec.json.encode(comparison_document(before, after))
    seen = shelf.get("compare", a=before.id, b=after.id)
    assert seen["rows"][0]["name"] == "output_rate"
    assert (seen["rows"][0]["ratio"], seen["rows"][0]["unit"], seen["rows"][0]["is_apart"]) == (2.0, "tokens/s", True)
    assert seen["different"]["execution"] == ["command"]
    other = shelf.put(RunKind.GATE, at=3000.0)
    assert shelf.refused("compare", a=before.id, b=other.id).code == "different_kinds"


def test_a_gate_has_the_newest_judgement_of_each_serve_and_whether_it_has_changed_since(shelf: Shelf) -> None:
    texts = [one.text for one in GATE.conditions]
    finding = Finding("preflight", Outcome.FAILED, "failed: echo")
    shelf.put(RunKind.GATE, at=1000.0, gate="default", conditions=texts)
    newest = shelf.put(RunKind.GATE, at=2000.0, findings=(finding,), gate="default", conditions=texts, max_age=None)
    shelf.put(RunKind.GATE, "b", at=1500.0, gate="default", conditions=["preflight"], max_age=None)
    shelf.put(RunKind.GATE, "c", at=1500.0, gate="another", conditions=texts)
    (gate,) = shelf.get("gates")["gates"]
    assert (gate["gate"], gate["conditions"], gate["max_age"]) == ("default", texts, None)
    assert [(one["serve"], one["has_changed"]) for one in gate["runs"]] == [("a", False), ("b", True)]
    assert (gate["runs"][0]["id"], gate["runs"][0]["findings"][0]["seen"]) == (newest.id, "failed: echo")
    shelf.gates = ()
    assert shelf.get("gates") == {"gates": []}


def test_it_takes_scope_observe_and_changes_nothing(shelf: Shelf) -> None:
    assert shelf.refused(caller=APP).status == 403
    assert shelf.refused(method="POST").status == 405
