"""Does this model still say what it said? A fixed set of questions at temperature 0, against a baseline.

Of each reply three things are kept: the number of prompt tokens (template and tokenizer), how the first token was
chosen (log probabilities, where the engine gives them), and a digest after each word, by which the agreement with
another reply is found without keeping either.

A baseline belongs to an identity. Within one execution a reply has to be the same, as far as the baseline's own
repeats were; across a change of execution (another engine version reduces its sums in another order) one that is
right by its question counts, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.figures import counted
from stoker.domain.run import Finding, Fingerprint, Outcome, Run
from stoker_lab.artifacts.fingerprint import difference
from stoker_lab.canary.questions import SEED, CanaryQuestion
from stoker_lab.requests.client import ModelClient, ModelReply

REPEATS = 3
"""Askings of each question that make a baseline: what differs among them does not count later."""
RERUNS, STRESS = 3, 25
"""After a mismatch: immediate repeats, then many."""
MAX_RERUNS_DIFFERING, MAX_STRESS_DIFFERING = 1, 1
"""At most this many mismatches among the repeats count as an anomaly that passed; more are a lasting change."""
MAX_SHIFT = 0.25
"""How far the mean log probability of the first token may shift within one execution: this much, plus three times the
shift among the baseline's own repeats. Batching changes rounding; a changed kernel or weight shifts more."""
MIN_AGREEMENT = 0.5
"""The share of words that must agree across a change of execution, for questions without a right answer."""
_WORD = re.compile(r"\s*\S+|\s+$")
_TIMEOUT = 300.0
_SILENT = "no answer"


class CanaryReply(msgspec.Struct):
    name: str
    failure: str = ""
    prompt_tokens: int | None = None
    word_digests: list[str] = msgspec.field(default_factory=list, name="words")
    """A digest of all that was said up to and with each word."""
    first_token_logprobs: dict[str, float] = msgspec.field(default_factory=dict, name="first")
    """Log probability of each candidate for the first token, by the token's digest."""
    is_right: bool | None = None
    """Whether the question accepts the answer; None: the question accepts any."""


class BaselineReply(msgspec.Struct):
    reply: CanaryReply = msgspec.field(name="seen")
    agreement: float = 1.0
    """The least, of its own repeats with the first: 1.0 is always the same."""
    shift: float = 0.0
    """The most by which their first token's log probabilities differed, on average."""


class Baseline(msgspec.Struct):
    """The raw part of a Run that was recorded as one."""

    digest: str
    """Digest of the questions."""
    replies: list[BaselineReply] = msgspec.field(default_factory=list, name="kept")

    def reply_to(self, name: str) -> BaselineReply | None:
        return next((kept for kept in self.replies if kept.reply.name == name), None)


class Mismatch(NamedTuple):
    name: str
    reason: str
    """The reason, in one sentence."""


class Anomaly(msgspec.Struct):
    """A mismatch and what its repeats said. Never dropped, however it ended."""

    name: str
    reason: str = msgspec.field(name="why")
    reruns: list[bool] = []
    """For each repeat: True if it mismatched, too."""
    stress: list[bool] = []
    at: float = 0.0
    """Unix time."""

    @property
    def is_persistent(self) -> bool:
        """k of n: more than one of three at once, or more than one of the many after."""
        return sum(self.reruns) > MAX_RERUNS_DIFFERING or sum(self.stress) > MAX_STRESS_DIFFERING

    @property
    def summary(self) -> str:
        counts = f"{sum(self.reruns)} of {len(self.reruns)} repeats and {sum(self.stress)} of {len(self.stress)} more"
        return f"{self.reason}; {counts} differed: {'it persists' if self.is_persistent else 'it happened once'}"


# -- asking --------------------------------------------------------------------------------------------------------


class CanaryClient:
    """Asks one model the questions of a set."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._has_logprobs = True

    async def ask(self, question: CanaryQuestion) -> CanaryReply:
        """Never raises but on cancel: what goes wrong is `failure`."""
        fixed = {"temperature": 0, "seed": SEED, "stream": False, **question.document}
        more = {"logprobs": True, "top_logprobs": 5} if self._has_logprobs else {}
        reply = await self._client.ask({**fixed, **more}, timeout=_TIMEOUT)
        if reply.timing.failure == "http_400" and more:
            self._has_logprobs = False
            reply = await self._client.ask(fixed, timeout=_TIMEOUT)
        return canary_reply(question, reply)


def canary_reply(question: CanaryQuestion, reply: ModelReply) -> CanaryReply:
    """What is kept of a reply."""
    if not reply.timing.is_ok:
        return CanaryReply(question.name, failure=reply.timing.failure)
    calls = [f"{call.name} {canonical(call.arguments)}" for call in reply.calls]
    text = "\n".join(part for part in (reply.thinking, reply.text, *calls) if part)
    right = all(word in text.lower() for word in question.must) if question.must else None
    first = _first_token_logprobs(reply.body)
    return CanaryReply(question.name, "", reply.timing.tokens.input, digests(text), first, right)


def canonical(arguments: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except msgspec.DecodeError:
        return arguments


def digests(text: str) -> list[str]:
    running, found = hashlib.sha256(), []
    for word in _WORD.findall(text):
        running.update(word.encode())
        found.append(running.hexdigest()[:8])
    return found


def _first_token_logprobs(body: Any) -> dict[str, float]:
    try:
        listed = body["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        pairs = [(str(one["token"]), float(one["logprob"])) for one in listed]
    except (KeyError, IndexError, TypeError, ValueError):
        return {}
    return {hashlib.sha256(token.encode()).hexdigest()[:8]: round(value, 6) for token, value in pairs}


# -- comparing -----------------------------------------------------------------------------------------------------


def agreement(before: CanaryReply, after: CanaryReply) -> float:
    """The share of words up to the first that differs; 1.0: the same, to the end."""
    longest = max(len(before.word_digests), len(after.word_digests))
    same = sum(1 for _ in _while_equal(before.word_digests, after.word_digests))
    return same / longest if longest else 1.0


def _while_equal(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    same = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        same.append(one)
    return same


def shift(before: CanaryReply, after: CanaryReply) -> float | None:
    """By how much the first token's log probabilities differ, on average over the candidates of both."""
    both = before.first_token_logprobs.keys() & after.first_token_logprobs.keys()
    return (
        sum(abs(before.first_token_logprobs[token] - after.first_token_logprobs[token]) for token in both) / len(both)
        if both
        else None
    )


def baseline_reply(repeats: Sequence[CanaryReply]) -> BaselineReply:
    """What a baseline knows, from repeats of one question."""
    head, *rest = repeats
    shifts = [shift(head, other) or 0.0 for other in rest]
    return BaselineReply(head, min((agreement(head, other) for other in rest), default=1.0), max(shifts, default=0.0))


def find_mismatch(kept: BaselineReply, now: CanaryReply, same_execution: bool) -> Mismatch | None:
    """1. no answer  2. other prompt tokens  3. the first token was chosen otherwise  4. as much alike as the baseline's
    own repeats  5. across a change of execution: right, or half alike  6. a mismatch."""
    before = kept.reply
    if now.failure:  # 1
        return Mismatch(now.name, f"{_SILENT} ({now.failure})")
    if None not in (before.prompt_tokens, now.prompt_tokens) and before.prompt_tokens != now.prompt_tokens:  # 2
        counts = f"{now.prompt_tokens} tokens instead of {before.prompt_tokens}"
        text = f"the prompt has {counts}: the template or the tokenizer changed"
        return Mismatch(now.name, text)
    moved = shift(before, now)
    if same_execution and moved is not None and moved > MAX_SHIFT + 3 * kept.shift:  # 3
        return Mismatch(now.name, f"the first token's log probabilities moved by {moved:.2f}")
    alike = agreement(before, now)
    if alike >= kept.agreement:  # 4
        return None
    if not same_execution and (now.is_right if now.is_right is not None else alike >= MIN_AGREEMENT):  # 5
        return None
    wrong = "; it is also wrong" if now.is_right is False and before.is_right else ""
    same = len(_while_equal(before.word_digests, now.word_digests))
    return Mismatch(now.name, f"the reply differs after {same} of {len(before.word_digests)} words{wrong}")  # 6


class BaselineRefused(StokerError):
    """The baseline says nothing about this serve."""

    status = 409
    code = "other_identity"


def require_comparable(baseline: Run, now: Fingerprint, digest: str, unknown_ok: bool = False) -> bool:
    """Whether the execution is the same, too. Raises BaselineRefused if the identity differs, or cannot be shown not
    to, or if other questions were asked. `unknown_ok`: what is unknown is taken for equal."""
    found = difference(baseline.subject.fingerprint, now)
    if found.identity:
        text = f"the baseline {baseline.id} belongs to another model ({'; '.join(found.identity)})"
        raise BaselineRefused(f"{text}: record one for this model with `stoker eval canary SERVE --record`")
    if found.unknown and not unknown_ok:
        text = f"whether the baseline {baseline.id} belongs to this model is not known ({'; '.join(found.unknown)})"
        raise BaselineRefused(f"{text}: with `--unknown-ok`, unknown parts count as equal")
    if baseline_in(baseline).digest != digest:
        text = f"the baseline {baseline.id} was recorded with other questions"
        raise BaselineRefused(
            f"{text}: record a new one with `stoker eval canary SERVE --record`", code="other_questions"
        )
    return not found.execution


def baseline_in(run: Run) -> Baseline:
    """Raises BaselineRefused if the run is no baseline."""
    try:
        return msgspec.json.decode(run.raw, type=Baseline)
    except msgspec.DecodeError as error:
        raise BaselineRefused(f"{run.id} is not a canary baseline ({error})", code="no_baseline") from error


# -- doing ---------------------------------------------------------------------------------------------------------

OnQuestion = Callable[[str], None]


async def record_baseline(
    asker: CanaryClient, chosen: Sequence[CanaryQuestion], digest: str, on_question: OnQuestion = lambda text: None
) -> Baseline:
    """Ask everything `REPEATS` times."""
    found = Baseline(digest)
    for question in chosen:
        repeats = [await asker.ask(question) for _ in range(REPEATS)]
        found.replies.append(baseline_reply(repeats))
        on_question(question.name)
    return found


async def repeat_mismatch(
    mismatch: Mismatch, again: Callable[[], Awaitable[bool]], at: float, stress: int = STRESS
) -> Anomaly:
    """Repeat what mismatched, at once and then many times. `again`: whether it mismatches now, too."""
    anomaly = Anomaly(mismatch.name, mismatch.reason, at=at)
    for _ in range(RERUNS):
        anomaly.reruns.append(await again())
    if sum(anomaly.reruns) <= MAX_RERUNS_DIFFERING:  # otherwise it is settled
        for _ in range(stress):
            anomaly.stress.append(await again())
    return anomaly


class CanaryResult(NamedTuple):
    """One pass over the set."""

    replies: list[CanaryReply]
    anomalies: list[Anomaly]

    @property
    def outcome(self) -> Outcome:
        return Outcome.FAILED if any(anomaly.is_persistent for anomaly in self.anomalies) else Outcome.PASSED


async def run_canary(
    asker: CanaryClient,
    chosen: Sequence[CanaryQuestion],
    baseline: Baseline,
    same_execution: bool,
    wall: Callable[[], float],
    on_question: OnQuestion = lambda text: None,
    stress: int = STRESS,
) -> CanaryResult:
    """Ask everything once, and what mismatches again and again."""
    replies, anomalies = [], []
    for question in chosen:
        kept = baseline.reply_to(question.name)
        reply = await asker.ask(question)
        replies.append(reply)
        mismatch = find_mismatch(kept, reply, same_execution) if kept is not None else None
        if mismatch is not None and kept is not None:
            asked, against = question, kept

            async def again(asked: CanaryQuestion = asked, against: BaselineReply = against) -> bool:
                return find_mismatch(against, await asker.ask(asked), same_execution) is not None

            anomalies.append(await repeat_mismatch(mismatch, again, wall(), stress))
        on_question(question.name)
    return CanaryResult(replies, anomalies)


# -- telling -------------------------------------------------------------------------------------------------------


def findings(checked: CanaryResult, baseline: Baseline) -> list[Finding]:
    """One per question."""
    by_name = {anomaly.name: anomaly for anomaly in checked.anomalies}
    found = []
    for reply in checked.replies:
        kept = baseline.reply_to(reply.name)
        numbers = _numbers(kept.reply, reply) if kept is not None else {}
        anomaly = by_name.get(reply.name)
        if anomaly is None:
            found.append(Finding(reply.name, Outcome.PASSED, f"as before: {word_count(reply)}", numbers=numbers))
        else:
            found.append(anomaly_finding(anomaly, reply.name, numbers))
    return found


def anomaly_finding(anomaly: Anomaly, name: str, numbers: Mapping[str, float | int | None] | None = None) -> Finding:
    numbers = dict(numbers or {}) | {"reruns": len(anomaly.reruns), "stress": len(anomaly.stress)}
    numbers["repeats_differing"] = sum(anomaly.reruns) + sum(anomaly.stress)
    if not anomaly.is_persistent:
        return Finding(name, Outcome.PASSED, f"anomaly: {anomaly.summary}", numbers=numbers)
    cause = "the model, its template, its sampling or the engine changed, or the engine computes wrongly"
    fix = "`stoker results compare BASELINE THIS` shows what changed; revert it, or record a new baseline"
    if anomaly.reason.startswith(_SILENT):
        cause, fix = "the serve did not answer", "check whether it runs, and look at its log: stoker serves logs SERVE"
    return Finding(name, Outcome.FAILED, anomaly.summary, cause, fix, numbers)


def _numbers(before: CanaryReply, now: CanaryReply) -> dict[str, float | int | None]:
    return {
        "agreement": round(agreement(before, now), 4),
        "prompt_tokens": now.prompt_tokens,
        "first_token_shift": None if (moved := shift(before, now)) is None else round(moved, 6),
    }


def word_count(reply: CanaryReply) -> str:
    return counted(len(reply.word_digests), "word")


def numbers(checked: CanaryResult, baseline: Baseline) -> dict[str, float | int | None]:
    """Of the whole set."""
    pairs = [(kept.reply, reply) for reply in checked.replies if (kept := baseline.reply_to(reply.name)) is not None]
    alike = [agreement(before, now) for before, now in pairs]
    shifts = [moved for before, now in pairs if (moved := shift(before, now)) is not None]
    return {
        "canary.passed": len(checked.replies) - sum(anomaly.is_persistent for anomaly in checked.anomalies),
        "canary.n": len(checked.replies),
        "anomalies": len(checked.anomalies),
        "agreement": round(sum(alike) / len(alike), 4) if alike else None,
        "agreement_low": round(min(alike), 4) if alike else None,
        "agreement_high": round(max(alike), 4) if alike else None,
        "first_token_shift": round(sum(shifts) / len(shifts), 6) if shifts else None,
    }
