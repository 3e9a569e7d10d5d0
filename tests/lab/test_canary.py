"""The canary: what is kept of a reply, when another one mismatches, and what repeats make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint, Outcome, Run, RunKind, Subject
from stoker_lab.canary import canary
from stoker_lab.canary.canary import (
    Baseline,
    BaselineRefused,
    BaselineReply,
    CanaryClient,
    CanaryReply,
    Mismatch,
    find_mismatch,
)
from stoker_lab.canary.questions import TINY, WORDINGS, CanaryQuestion, digest, questions_for
from stoker_lab.requests.client import ModelClient
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

ASK = CanaryQuestion("sum", {"messages": [{"role": "user", "content": "What is 17 + 25?"}], "max_tokens": 8}, ("42",))
OTHER = CanaryQuestion("pong", {"messages": [{"role": "user", "content": "Say pong."}], "max_tokens": 8}, ("pong",))
IDENTITY = {"model": "sha256:1", "revision": "1", "quantisation": "Q8_0", "template": "sha256:2", "sampling": "default"}


def reply(
    *words: str, prompt: int | None = 5, failure: str = "", right: bool | None = None, **first: float
) -> CanaryReply:
    return CanaryReply("sum", failure, prompt, canary.digests(" ".join(words)), first, right)


def answered(text: str, **more: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "text", "text": text}], **more}


# -- replies -------------------------------------------------------------------------------------------------------


def test_agreement_counts_words_up_to_the_first_that_differs() -> None:
    assert canary.agreement(reply("a", "b", "c", "d"), reply("a", "b", "x", "d")) == 0.5
    assert canary.agreement(reply("a", "b"), reply("a", "b", "c", "d")) == 0.5
    assert canary.agreement(reply("a"), reply("a")) == 1.0
    assert canary.agreement(reply(""), reply("")) == 1.0


def test_a_shift_is_of_candidates_that_both_have() -> None:
    assert canary.shift(reply(x=-1.0, y=-2.0), reply(x=-1.5, z=-3.0)) == 0.5
    assert canary.shift(reply(x=-1.0), reply()) is None


@pytest.mark.parametrize(
    ("now", "same_execution", "why"),
    [
        (reply("it", "is", "42"), True, None),
        (reply("it", "is", "43", right=False), True, "differs after 2 of 3 words; it is also wrong"),
        (reply("42", right=True), True, "differs after 0 of 3 words"),
        (reply("42", right=True), False, None),
        (reply("it", "is", "41", right=False), False, "differs after 2 of 3 words; it is also wrong"),
        (reply("it", "is", "well"), False, None),
        (reply("what", "is"), False, "differs after 0"),
        (reply("it", "is", "42", prompt=6), True, "the prompt has 6 tokens instead of 5"),
        (reply("it", "is", "42", prompt=None), True, None),
        (reply("it", "is", "42", x=-1.9), True, "log probabilities moved by 0.90"),
        (reply("it", "is", "42", x=-1.2), True, None),
        (reply("it", "is", "42", x=-1.9), False, None),
        (reply(failure="broke_off"), False, "no answer"),
    ],
)
def test_when_a_reply_mismatches(now: CanaryReply, same_execution: bool, why: str | None) -> None:
    kept = BaselineReply(reply("it", "is", "42", right=True, x=-1.0))
    found = find_mismatch(kept, now, same_execution)
    assert (found is None) if why is None else (found is not None and why in found.reason)


def test_what_differed_among_the_baselines_own_repeats_is_held_against_nobody() -> None:
    kept = canary.baseline_reply([reply("a", "b", "c", "d", x=-1.0), reply("a", "b", "x", "y", x=-1.2)])
    assert (kept.agreement, round(kept.shift, 3)) == (0.5, 0.2)
    assert find_mismatch(kept, reply("a", "b", "z"), True) is None
    assert find_mismatch(kept, reply("a", "z"), True) is not None


# -- k of n --------------------------------------------------------------------------------------------------------


def resolved(repeats: Sequence[bool]) -> tuple[canary.Anomaly, int]:
    left = list(repeats)

    async def again() -> bool:
        return left.pop(0)

    found = asyncio.run(canary.repeat_mismatch(Mismatch("sum", "it differs"), again, 1.0))
    return found, len(repeats) - len(left)


def test_given_a_canary_mismatch_once_then_repeats_decide_and_it_is_recorded_as_an_anomaly_never_dropped() -> None:
    """Behaviour 55."""
    once, asked = resolved([False] * 28)
    assert (once.is_persistent, asked, len(once.reruns), len(once.stress)) == (False, 28, 3, 25)
    assert once.summary == "it differs; 0 of 3 repeats and 0 of 25 more differed: it happened once"
    always, asked = resolved([True] * 28)
    assert (always.is_persistent, asked) == (True, 3)
    seldom, _ = resolved([True, False, False, *[False] * 25])
    assert not seldom.is_persistent
    often, _ = resolved([False, False, False, True, True, *[False] * 23])
    assert often.is_persistent
    baseline = Baseline("d", [BaselineReply(reply("42"))])
    finding = canary.findings(canary.CanaryResult([reply("43")], [once]), baseline)[0]
    assert finding.outcome is Outcome.PASSED
    assert "anomaly" in finding.observed
    numbers = canary.numbers(canary.CanaryResult([reply("43")], [once]), baseline)
    assert (numbers["anomalies"], numbers["canary.passed"], numbers["canary.n"]) == (1, 1, 1)
    assert canary.findings(canary.CanaryResult([reply("43")], [always]), baseline)[0].outcome is Outcome.FAILED


# -- over HTTP -----------------------------------------------------------------------------------------------------


def test_a_scripted_model_is_recorded_and_checked_and_one_wrong_answer_is_an_anomaly() -> None:
    async def run() -> tuple[Baseline, canary.CanaryResult, canary.CanaryResult, canary.CanaryResult]:
        script = Script(answers=[answered("it is 42")])
        async with ScriptedServer(script) as server:
            client = ModelClient(Target("127.0.0.1", server.port, "", script.id))
            asker, chosen = CanaryClient(client), [ASK, OTHER]
            try:
                kept = await canary.record_baseline(asker, chosen, digest(chosen))
                clean = await canary.run_canary(asker, chosen, kept, True, lambda: 5.0, stress=2)
                server.script = script.amended({"answers": [answered("it is 41")]})

                def back(name: str) -> None:
                    server.script = script

                real, asked = asker.ask, list[str]()

                async def once(question: CanaryQuestion) -> CanaryReply:
                    found = await real(question)
                    asked.append(question.name)
                    back(question.name)
                    return found

                asker.ask = once  # type: ignore[method-assign]
                anomalous = await canary.run_canary(asker, chosen, kept, True, lambda: 5.0, stress=2)
                asker.ask = real  # type: ignore[method-assign]
                server.script = script.amended({"prompt_tokens": 99})
                changed = await canary.run_canary(asker, chosen, kept, True, lambda: 5.0, stress=2)
            finally:
                client.close()
        return kept, clean, anomalous, changed

    kept, clean, anomalous, changed = asyncio.run(run())
    assert [one.agreement for one in kept.replies] == [1.0, 1.0]
    assert [one.reply.is_right for one in kept.replies] == [True, False]
    assert (clean.outcome, clean.anomalies) == (Outcome.PASSED, [])
    assert anomalous.outcome is Outcome.PASSED
    assert [(one.name, one.reruns, one.stress, one.at) for one in anomalous.anomalies] == [
        ("sum", [False] * 3, [False] * 2, 5.0)
    ]
    assert changed.outcome is Outcome.FAILED
    assert all("the prompt has 99 tokens" in one.reason for one in changed.anomalies)


def test_an_engine_that_refuses_log_probabilities_is_asked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[dict[str, Any]] = []

    async def run() -> CanaryReply:
        async with ScriptedServer(Script(answers=[answered("42")])) as server:
            client = ModelClient(Target("127.0.0.1", server.port, "", "scripted"))
            real = client.ask

            async def picky(document: Any, **more: Any) -> Any:
                documents.append(dict(document))
                server.script = server.script.amended({"error_status": 400 if "logprobs" in document else None})
                return await real(document, **more)

            monkeypatch.setattr(client, "ask", picky)
            try:
                asker = CanaryClient(client)
                await asker.ask(ASK)
                return await asker.ask(ASK)
            finally:
                client.close()

    assert asyncio.run(run()).is_right
    assert ["logprobs" in one for one in documents] == [True, False, False]
    assert all(one["temperature"] == 0 and one["seed"] for one in documents)


def test_calls_count_with_their_arguments_in_any_order_of_keys() -> None:
    assert canary.canonical('{"b": 1, "a": 2}') == canary.canonical('{"a":2,"b":1}')
    assert canary.canonical("{broken") == "{broken"


# -- baselines -----------------------------------------------------------------------------------------------------


def baseline(parts: dict[str, str], raw: bytes | None = None) -> Run:
    subject = Subject("fast", "fast", "http://x/v1", fingerprint=Fingerprint("i", "e", parts))
    kept = raw if raw is not None else msgspec.json.encode(Baseline("d"))
    return Run("one", RunKind.CANARY, 0, 0, subject, Outcome.PASSED, raw=msgspec.Raw(kept))


def test_given_a_baseline_of_another_fingerprint_then_the_comparison_is_refused() -> None:
    """Behaviour 57."""
    kept = baseline(IDENTITY | {"version": "1"})
    assert canary.require_comparable(kept, Fingerprint(parts=IDENTITY | {"version": "1"}), "d")
    assert not canary.require_comparable(kept, Fingerprint(parts=IDENTITY | {"version": "2"}), "d")
    with pytest.raises(BaselineRefused, match="template: sha256:2 -> sha256:3"):
        canary.require_comparable(kept, Fingerprint(parts=IDENTITY | {"template": "sha256:3"}), "d", True)
    unknown = Fingerprint(parts={name: value for name, value in IDENTITY.items() if name != "template"})
    with pytest.raises(BaselineRefused, match="template: sha256:2 -> unknown"):
        canary.require_comparable(kept, unknown, "d")
    assert not canary.require_comparable(kept, unknown, "d", unknown_ok=True)  # its version is unknown, too
    with pytest.raises(BaselineRefused, match="other questions"):
        canary.require_comparable(kept, Fingerprint(parts=IDENTITY), "e")
    with pytest.raises(BaselineRefused, match="not a canary baseline"):
        canary.require_comparable(baseline(IDENTITY, b"[]"), Fingerprint(parts=IDENTITY), "d")


def test_the_shipped_models_are_asked_in_their_own_words() -> None:
    assert questions_for(sorted(TINY)[0]) is WORDINGS["tiny"]
    assert questions_for("sha256:else") is WORDINGS["assistant"]
    assert digest(WORDINGS["tiny"]) != digest(WORDINGS["assistant"])
    for chosen in WORDINGS.values():
        assert len({one.name for one in chosen}) == len(chosen) == 16


def test_stored_replies_keep_their_field_names() -> None:
    stored = b'{"name":"sum","prompt_tokens":5,"words":["0a1b2c3d"],"first":{"4e5f6a7b":-0.5}}'
    kept = msgspec.json.decode(stored, type=CanaryReply)
    assert (kept.word_digests, kept.first_token_logprobs) == (["0a1b2c3d"], {"4e5f6a7b": -0.5})
    assert {"words", "first"} <= msgspec.to_builtins(kept).keys()
