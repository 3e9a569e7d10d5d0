"""`decisions` and `explain`: from the running Stoker, else from its file; told as a story."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker, error

from stoker.cli.commands import decisions_follow
from stoker.cli.main import run
from stoker.domain.decision import Candidate, Decision, OrchestratedRecord
from stoker.gateway.explain import facts
from stoker.gateway.explain.explanation import explain
from stoker.store.decisions import DecisionLog

SERVED = Decision(
    id="req-1", at=1_700_000_000.0, endpoint="/v1/chat/completions", model="coder", key="team", serve="fast",
    candidates=[Candidate("slow", "no place"), Candidate("fast")], attempts=1, stream=True, status=200,
    outcome="served", queued=1.25, ttft=0.5, latency=2.5, input_tokens=120, output_tokens=41, cached_tokens=80,
    translation="model,include_usage",
)  # fmt: skip


def _told(decision: Decision) -> str:
    return facts.as_text(decision.id, explain(decision).facts)


def test_the_story_tells_everything_in_order() -> None:
    lines = [line.strip() for line in _told(SERVED).splitlines()]
    assert lines[0] == "request req-1"
    assert lines[1].endswith("/v1/chat/completions (streamed)")
    assert lines[2:] == [
        "asked for    'coder', with key 'team'",
        "candidates   slow: dropped: no place",
        "fast: used",
        "waited       1.2 s for a place or a load",
        "attempts     1",
        "first token  after 500 ms",
        "whole reply  after 2.5 s",
        "tokens       120 in (80 of them cached), 41 out, 20.0 tokens/s after the first",
        "outcome      served: answered completely; status 200",
        "edits made   model (the serve's own name), include_usage (usage was asked for)",
    ]


def test_what_is_unknown_is_never_told_as_zero() -> None:
    told = _told(Decision("r", 0.0, "/v1/models", outcome="refused", reason="unknown_model", status=404))
    assert "tokens       none: no model server was asked" in told
    called = _told(Decision("r", 0.0, "/v1/models", outcome="served", attempts=1, status=200))
    assert "tokens       unknown" in called
    assert "first token  unknown" in told
    assert "waited       not at all" in told
    assert "candidates   none considered" in told
    assert "refused before anything was generated; status 404, because unknown_model" in told
    assert "without a key" in told


def test_an_orchestrated_request_shows_its_policy_blocks_and_waste() -> None:
    record = OrchestratedRecord(
        "pair", "block_by_block", "code-write", blocks=5, resumed=2, failures={"structure": 2, "names": 1}, discarded=1,
        generations=4, validator_tokens=40, wasted_tokens=7,
    )  # fmt: skip
    text = _told(Decision("r", 0.0, "/v1/messages", outcome="served", orchestrated=record))
    assert "orchestrator pair: block_by_block, class code-write" in text
    assert "5 committed (2 of them by an earlier request); failed: names 1, structure 2, 1 discarded" in text
    assert "worker asked 4 times; 7 tokens wasted, 40 for the validator" in text
    assert "pair: block_by_block, 5 blocks, 3 failed" in decisions_follow.line(
        Decision("r", 0.0, "/v1/messages", outcome="served", orchestrated=record)
    )
    simple = Decision("r", 0.0, "/v1/messages", orchestrated=OrchestratedRecord("pair", "simple", "tools"))
    assert "pair: simple, the request has tools" in _told(simple)
    assert "committed" not in _told(simple)


def test_every_outcome_word_has_its_sentence() -> None:
    import stoker.domain.decision as module

    source = Path(module.__file__).read_text().split("class Decision")[1]
    words = {word for word in facts.OUTCOMES if word != "open"}
    assert words == set(source.split("outcome: str")[1].split('"""')[1].replace("`", "").strip(" .").split(", "))


def test_a_running_stoker_is_asked(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    record = msgspec.to_builtins(SERVED)
    stoker.answer("GET /admin/decisions?limit=5", {"decisions": [record]})
    stoker.answer("GET /admin/decisions/req-1", {"decision": record})
    assert run(["decisions", "--limit", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split()[:1] == ["req-1"]
    assert captured.err.endswith("stoker explain req-1\n")
    assert run(["decisions", "--limit", "5", "--state", str(stoker.path.parent)]) == 0
    assert capsys.readouterr().err.endswith(f"stoker explain req-1 --state {stoker.path.parent}\n")
    assert run(["explain", "req-1"]) == 0
    assert "fast: used" in capsys.readouterr().out
    assert run(["explain", "req-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_an_id_that_nobody_knows_is_told(stoker: FakeStoker, capsys: pytest.CaptureFixture[str]) -> None:
    stoker.answer("GET /admin/decisions/x", error("unknown", "unknown_request"), 404)
    assert run(["explain", "x"]) == 1
    assert "stoker decisions" in capsys.readouterr().err
    stoker.answer("GET /admin/decisions/x", error("this key may not", "forbidden"), 403)
    assert run(["explain", "x"]) == 1
    assert "this key may not" in capsys.readouterr().err


def test_when_nothing_runs_the_file_is_read(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decisions"]) == 0
    assert "no requests" in capsys.readouterr().out
    log = DecisionLog(config.parent / "state" / "decisions.db", 10)
    log.record(SERVED)
    log.close()
    assert run(["decisions", "--json"]) == 0
    assert [d["id"] for d in json.loads(capsys.readouterr().out)] == ["req-1"]
    assert run(["explain", "req-1"]) == 0
    assert "'coder', with key 'team'" in capsys.readouterr().out
    assert run(["explain", "req-2"]) == 1
    config.write_text(config.read_text() + "\n[[serve]]\nnaem = 1\n")
    for words in (["explain", "req-1"], ["decisions"]):
        assert run(words) == 0, "what happened does not depend on what is wrong with the file now"


def test_explain_without_an_id_takes_the_newest_and_failed_the_newest_failure(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain"]) == 1
    said = capsys.readouterr().err
    assert "no request is recorded yet" in said
    assert "`stoker client curl` prints a first one" in said, "not a list that is empty, too"
    log = DecisionLog(config.parent / "state" / "decisions.db", 10)
    broken = Decision(
        "req-0", 1.0, "/v1/messages", "coder", status=503, outcome="upstream_failed", reason="bad_weights"
    )
    for one in (broken, SERVED):
        log.record(one)
    log.close()
    assert run(["explain"]) == 0
    assert capsys.readouterr().out.startswith("request req-1\n")
    assert run(["explain", "--failed"]) == 0
    assert capsys.readouterr().out.startswith("request req-0\n")
    assert run(["explain", "req-1", "--failed"]) == 2
    assert "leave out one of them" in capsys.readouterr().err


def test_a_running_stoker_is_asked_for_the_newest_failure(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    record = msgspec.to_builtins(SERVED)
    failed = record | {"id": "req-9", "outcome": "cut"}
    stoker.answer("GET /admin/decisions?limit=1", {"decisions": [record]})
    stoker.answer("GET /admin/decisions?limit=1&failed=true", {"decisions": [failed]})
    stoker.answer("GET /admin/decisions/req-1", {"decision": record})
    stoker.answer("GET /admin/decisions/req-9", {"decision": failed})
    assert run(["explain"]) == 0
    assert capsys.readouterr().out.startswith("request req-1\n")
    assert run(["explain", "--failed"]) == 0
    assert capsys.readouterr().out.startswith("request req-9\n")
    stoker.answer("GET /admin/decisions?limit=1&failed=true", {"decisions": []})
    assert run(["explain", "--failed"]) == 1
    assert "no failed request is recorded" in capsys.readouterr().err
