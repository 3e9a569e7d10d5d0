"""Rejected, caught, and how fast."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import Any

import msgspec

from bench.figures import nearest_rank, table
from bench.verifier.clean import Case, cases
from bench.verifier.faults import broken
from stoker.domain.answer import Answer, Event, Grew
from stoker.domain.tier import Verify
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import AnswerState
from stoker_content.verify.verifier import Verifier, events_of


class Row(msgspec.Struct, frozen=True):
    """Of one kind: how many there were, and how many were failed."""

    kind: str
    n: int
    failed: int


class Report(msgspec.Struct, frozen=True):
    seed: int
    clean: list[Row]
    """Each failed one is a false reject."""
    faults: list[Row]
    """Each failed one is caught."""
    noted: dict[str, int]
    """What was only noted in clean answers, by check."""
    microseconds: float
    """Per 1,000 characters of clean answers, the expectation included."""
    p99: float
    """Milliseconds for one whole answer."""
    missed: list[str]
    """The first missed answer of each fault that was missed."""

    @property
    def rejected(self) -> tuple[int, int]:
        return sum(row.failed for row in self.clean), sum(row.n for row in self.clean)

    @property
    def caught(self) -> tuple[int, int]:
        return sum(row.failed for row in self.faults), sum(row.n for row in self.faults)


def cut(rng: Random, events: list[Event]) -> list[Event]:
    """The same answer in pieces of about a token."""
    found: list[Event] = []
    for event in events:
        if not isinstance(event, Grew):
            found.append(event)
            continue
        at = 0
        while at < len(event.text):
            size = rng.randint(1, 8)
            found.append(Grew(event.at, event.text[at : at + size]))
            at += size
    return found


def verified(case: Case, rng: Random) -> tuple[Verifier, float]:
    """The verifier after the whole answer, and the seconds that it took."""
    events = cut(rng, events_of(case.answer))
    began = time.perf_counter()
    one = Verifier(Expectation(case.prompt), Verify.HOLD_TOOLS)
    for event in events:
        one.feed(event)
    return one, time.perf_counter() - began


def size(answer: Answer) -> int:
    return sum(len(getattr(block, "text", "") or getattr(block, "arguments", "")) for block in answer.blocks)


def measure(seed: int, n: int, each: int) -> Report:
    """`n` clean answers, and `each` of every fault."""
    rng = Random(seed)
    clean: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    noted: Counter[str] = Counter()
    seconds: list[float] = []
    characters = 0
    for case in cases(seed, n):
        one, took = verified(case, rng)
        seconds.append(took)
        characters += size(case.answer)
        clean[case.kind] += 1
        rejected[case.kind] += one.state() is not AnswerState.PASSED
        noted.update(finding.check for finding in one.findings if not finding.is_proved)
    faults, missed = _faults(seed, each, rng)
    return Report(
        seed,
        [Row(kind, count, rejected[kind]) for kind, count in clean.items()],
        faults,
        dict(noted),
        sum(seconds) / max(1, characters) * 1e9,
        (nearest_rank(seconds, 0.99) or 0.0) * 1e3,
        missed,
    )


def _faults(seed: int, each: int, rng: Random) -> tuple[list[Row], list[str]]:
    rows, missed = [], []
    for name, made in broken(seed, each).items():
        passed = [case for case in made if verified(case, rng)[0].state() is not AnswerState.FAILED]
        rows.append(Row(name, len(made), len(made) - len(passed)))
        missed += [f"{name}: {case.answer.blocks!r}" for case in passed[:1]]
    return rows, missed


def shown(report: Report, with_missed: bool = False) -> str:
    rows: list[list[Any]] = [[row.kind, str(row.n), str(row.failed)] for row in report.clean]
    caught = [[row.kind, str(row.n), f"{row.failed / row.n:.1%}"] for row in report.faults if row.n]
    (bad, clean), (found, faults) = report.rejected, report.caught
    lines = [
        table(["clean", "n", "rejected"], [*rows, ["all", str(clean), f"{bad} ({bad / max(1, clean):.2%})"]]),
        "",
        table(["fault", "n", "caught"], [*caught, ["all", str(faults), f"{found / max(1, faults):.2%}"]]),
        "",
        f"noted in clean answers: {', '.join(f'{check} {count}' for check, count in sorted(report.noted.items()))}",
        f"{report.microseconds:.0f} µs per 1,000 characters; p99 {report.p99:.2f} ms per answer; seed {report.seed}",
    ]
    return "\n".join([*lines, *(report.missed if with_missed else [])])
