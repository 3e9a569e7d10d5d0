"""Grades a model class by class, one fixture after the other, and stops a class as soon as it is decided.

Unanswered and uncheckable fixtures are recorded but not counted, because they say nothing about the model. Several of
them in a row end the class.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from stoker.domain.answer import Answer
from stoker.domain.run import Fingerprint
from stoker.domain.tier import ProfileRow
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.statistics import stats
from stoker_lab.suites.check_kinds import FixtureCheck
from stoker_lab.suites.checkers.code import CheckBroken
from stoker_lab.suites.checkers.plain_text import Grade
from stoker_lab.suites.checkers.table import check_answer
from stoker_lab.suites.fixture import Fixture, by_class, digest
from stoker_lab.suites.sandbox import sandbox

SAMPLING: Mapping[str, Any] = {"temperature": 0, "seed": 7}
"""Defaults that the caller or the fixture may override."""
TIMEOUT = 300.0
PATIENCE = 60.0
"""Seconds for one check: the sandbox's own limits come first."""
GIVE_UP = 3
"""So many in a row that are no sample end a class."""


class GradeOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNANSWERED = "unanswered"
    """No answer came; `reason` says why."""
    CHECKER = "checker"
    """The check crashed or hung."""


TOO_LONG = "context_length_exceeded"
"""The reason for a question that does not fit the context, whatever the engine calls it."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|max_model_len", re.IGNORECASE
)
SAMPLES = (GradeOutcome.PASSED, GradeOutcome.FAILED)


class GradedFixture(msgspec.Struct, frozen=True):
    fixture: str
    digest: str
    """Digest of the fixture as it was asked."""
    task_class: str
    outcome: GradeOutcome
    reason: str = msgspec.field(default="", name="told")
    """Why it did not pass, in a few words."""
    seconds: float | None = None
    """Seconds until the end of the answer."""
    tokens: int | None = None
    """Tokens of the answer, as the server counted them."""

    @property
    def is_sample(self) -> bool:
        return self.outcome in SAMPLES


class GradingProgress(NamedTuple):
    graded: GradedFixture
    is_new: bool
    """False: the grade comes from an earlier run."""
    n: int
    passed: int
    of: int
    """Fixtures of the class: the most that can be asked."""
    result: stats.SprtResult


class UngradedFixtures(NamedTuple):
    """A class some of whose fixtures gave no sample."""

    task_class: str
    samples: int
    ungraded: int
    reason: str
    """The most frequent reason."""
    first_fixture: str


AskFixture = Callable[[Fixture], Awaitable[ModelReply]]
CheckAnswer = Callable[[FixtureCheck, Answer], Grade]
"""Blocks; raises CheckBroken where it could not check."""


def fixture_asker(client: ModelClient, settings: Mapping[str, Any] = SAMPLING, timeout: float = TIMEOUT) -> AskFixture:
    """Asks one model. `settings` go with every request: sampling, a limit of tokens; the fixture's own come first."""

    async def ask(fixture: Fixture) -> ModelReply:
        return await client.ask({**settings, "stream": False, **fixture.request}, timeout=timeout)

    return ask


def check_in_sandbox(check: FixtureCheck, answer: Answer) -> Grade:
    """With the sandbox of this machine."""
    return check_answer(check, answer, sandbox.run_program)


async def grade_fixtures(
    fixtures: Iterable[Fixture],
    ask: AskFixture,
    done: Iterable[GradedFixture] = (),
    on_progress: Callable[[GradingProgress], None] = lambda progress: None,
    check: CheckAnswer = check_in_sandbox,
    test: Callable[[], stats.Sprt] = stats.Sprt,
) -> list[GradedFixture]:
    """Grades, in the order of the fixtures. A failure of the model or of a check is a grade, not an exception.

    `done`: from an earlier run; the ones that are samples, of fixtures that did not change since, are not asked again.
    On cancel, only what `on_progress` got is left: store it, and pass it as `done` next time.
    """
    kept = {(one.fixture, one.digest): one for one in done if one.is_sample}
    found: list[GradedFixture] = []
    for own in by_class(fixtures).values():
        sprt, misses = test(), 0
        for fixture in own:
            earlier = kept.get((fixture.id, fixture.digest))
            one = earlier or await grade_fixture(fixture, ask, check)
            found.append(one)
            if one.is_sample:
                sprt.feed(one.outcome is GradeOutcome.PASSED)
            misses = 0 if one.is_sample else misses + 1
            on_progress(GradingProgress(one, earlier is None, sprt.n, sprt.passed, len(own), sprt.result))
            if sprt.is_over or misses == GIVE_UP:
                break
    return found


async def grade_fixture(fixture: Fixture, ask: AskFixture, check: CheckAnswer = check_in_sandbox) -> GradedFixture:
    """1. no answer  2. a check that crashed or hung  3. passed or failed."""

    def graded(outcome: GradeOutcome, reason: str, reply: ModelReply | None = None) -> GradedFixture:
        seconds = round(reply.timing.ended - reply.timing.t0, 6) if reply is not None else None
        tokens = reply.timing.tokens.output if reply is not None else None
        return GradedFixture(fixture.id, fixture.digest, fixture.task_class, outcome, reason, seconds, tokens)

    reply = await ask(fixture)
    if not reply.timing.is_ok:  # 1
        return graded(GradeOutcome.UNANSWERED, _why(reply))
    try:
        async with asyncio.timeout(PATIENCE):
            grade = await _aside(check, fixture.check, reply.answer)
    except TimeoutError:  # 2
        return graded(GradeOutcome.CHECKER, f"the check took longer than {PATIENCE:g} s", reply)
    except CheckBroken as error:
        return graded(GradeOutcome.CHECKER, str(error), reply)
    return graded(GradeOutcome.PASSED if grade.passed else GradeOutcome.FAILED, grade.reason, reply)  # 3


def _why(reply: ModelReply) -> str:
    """In one word, with the server's own code where it gave one. Of its message nothing: it may quote the question."""
    error = reply.body.get("error") if isinstance(reply.body, dict) else None
    if not isinstance(error, dict):
        return reply.timing.failure
    code = error.get("code") or error.get("type")
    if reply.timing.status == 400 and any(_TOO_LONG.search(str(error.get(key))) for key in ("code", "type", "message")):
        return TOO_LONG
    return f"{reply.timing.failure} {code}" if isinstance(code, str) else reply.timing.failure


def ungraded_fixtures(graded: Iterable[GradedFixture]) -> list[UngradedFixtures]:
    """The classes with fixtures that gave no sample, in the order in which they were asked."""
    classes: dict[str, list[GradedFixture]] = {}
    for one in graded:
        classes.setdefault(one.task_class, []).append(one)
    found = []
    for name, own in classes.items():
        missed = [one for one in own if not one.is_sample]
        if missed:
            reason = Counter(one.reason for one in missed).most_common(1)[0][0]
            first = next(one.fixture for one in missed if one.reason == reason)
            found.append(UngradedFixtures(name, len(own) - len(missed), len(missed), reason, first))
    return found


async def _aside(check: CheckAnswer, asked: FixtureCheck, answer: Answer) -> Grade:
    """In a separate thread, which is abandoned if it hangs. Every exception becomes CheckBroken."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Grade] = loop.create_future()

    def settle(grade: Grade | None, error: CheckBroken | None) -> None:
        if result.done():
            return
        if grade is not None:
            result.set_result(grade)
        else:
            result.set_exception(error or CheckBroken("no grade"))

    def work() -> None:
        grade, failed = None, None
        try:
            grade = check(asked, answer)
        except CheckBroken as error:
            failed = error
        except Exception as error:
            failed = CheckBroken(f"{type(error).__name__}: {error}"[:200])
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, grade, failed)

    threading.Thread(target=work, name="suite-check", daemon=True).start()
    return await result


def profile_rows(
    graded: Sequence[GradedFixture],
    fixtures: Iterable[Fixture],
    tier: str,
    fingerprint: Fingerprint,
    at: float,
    source: str = "bootstrap",
    test: Callable[[], stats.Sprt] = stats.Sprt,
) -> list[ProfileRow]:
    """The quality profile of one tier: a row for each class that has a sample. `at`: Unix time.

    Undecided is `allow-with-verify`. The dataset is the hash of the class's own fixtures: other classes may change.
    """
    found = []
    for name, own in by_class(fixtures).items():
        samples = [one for one in graded if one.task_class == name and one.is_sample]
        if not samples:
            continue
        sprt = test()
        for one in samples:
            sprt.feed(one.outcome is GradeOutcome.PASSED)
        seconds = [one.seconds for one in samples if one.seconds is not None]
        found.append(
            ProfileRow(
                tier, name, fingerprint.identity, fingerprint.execution, sprt.n, sprt.passed,
                stats.ROW_VERDICTS[sprt.result],
                round(statistics.median(seconds), 6) if seconds else None, source, digest(own), at,
            )
        )  # fmt: skip
    return found
