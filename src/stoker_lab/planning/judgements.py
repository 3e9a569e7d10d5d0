"""What people, or other judges, say of plans, beside the structural grade: read, checked, and how far they agree.

CSV with a header, or JSONL, told apart by the first character: fixture, model, judge, score (0 to 1, or pass or fail),
and a note where there is one. Whatever is wrong names its line and field, and then nothing of the file counts.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker_lab.statistics.stats import kappa, wilson
from stoker_lab.suites.fixture import FixtureError

FIELDS = ("fixture", "model", "judge", "score")
NOTE = "note"
STRUCTURE, MEAN = "structure", "mean of the judges"
"""Raters that are not judges."""
PASS = 0.5
"""A score from here on is a pass, where only pass and fail are compared."""
_WORDS = {"pass": 1.0, "fail": 0.0}
Key = tuple[str, str]
"""Model and fixture: one output."""


class Judgement(NamedTuple):
    fixture: str
    model: str
    judge: str
    score: float
    note: str
    line: int
    """Where it begins in the file."""


def read(path: Path) -> list[Judgement]:
    """All rows, or FixtureError."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FixtureError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FixtureError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    return parse(text, str(path))


def parse(text: str, shown: str) -> list[Judgement]:
    """`shown`: what messages call the file."""
    rows = _from_json(text, shown) if text.lstrip().startswith("{") else _from_csv(text, shown)
    found: list[Judgement] = []
    first: dict[tuple[str, str, str], int] = {}
    for line, row in rows:
        one = _judgement(row, shown, line)
        key = (one.fixture, one.model, one.judge)
        if (before := first.setdefault(key, line)) != line:
            raise bad_field(shown, line, "judge", f"'{one.judge}' judged this output in line {before} already")
        found.append(one)
    if not found:
        raise FixtureError(f"{shown} holds no judgement: a row is {', '.join(FIELDS)} and, where wanted, {NOTE}")
    return found


def bad_field(shown: str, line: int, field: str, why: str) -> FixtureError:
    return FixtureError(f"{shown}, line {line}, {field}: {why}")


def _from_json(text: str, shown: str) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise FixtureError(f"{shown}, line {number}: {str(error)[:200]}") from None
        if not isinstance(row, dict):
            raise FixtureError(f"{shown}, line {number}: is not an object")
        yield number, row


def _from_csv(text: str, shown: str) -> Iterator[tuple[int, dict[str, object]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            begun, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _header([cell.strip().lower() for cell in cells], shown, begun)
            elif len(cells) > len(header):
                raise FixtureError(f"{shown}, line {begun}: {len(cells)} cells under {len(header)} columns")
            else:
                yield begun, dict(zip(header, (cell.strip() for cell in cells), strict=False))
    except csv.Error as error:
        raise FixtureError(f"{shown}, line {line}: {error}") from None


def _header(names: list[str], shown: str, line: int) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise bad_field(shown, line, name or "header", "this column stands twice")
    if missing := [name for name in FIELDS if name not in names]:
        raise bad_field(shown, line, missing[0], f"this column is missing; the header is {','.join((*FIELDS, NOTE))}")
    return names


def _judgement(row: Mapping[str, object], shown: str, line: int) -> Judgement:
    for name in row:
        if name not in (*FIELDS, NOTE):
            raise bad_field(shown, line, name[:40], f"is unknown; known: {', '.join((*FIELDS, NOTE))}")
    texts = [_text(row, name, shown, line) for name in FIELDS[:3]]
    if texts[2] in (STRUCTURE, MEAN):
        raise bad_field(shown, line, "judge", f"'{texts[2]}' stands for another grade; give another name")
    note = row.get(NOTE)
    if note is not None and not isinstance(note, str):
        raise bad_field(shown, line, NOTE, "is not text")
    return Judgement(texts[0], texts[1], texts[2], _score(row.get("score"), shown, line), note or "", line)


def _text(row: Mapping[str, object], name: str, shown: str, line: int) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise bad_field(shown, line, name, "is missing" if value in (None, "") else "is not text")
    return value.strip()


def _score(value: object, shown: str, line: int) -> float:
    """1. pass or fail  2. a number, or the text of one  3. from 0 to 1"""
    given = value.strip().lower() if isinstance(value, str) else value
    if isinstance(given, str) and given in _WORDS:
        return _WORDS[given]  # 1
    try:
        score = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else math.nan  # 2
    except (ValueError, OverflowError):
        score = math.nan
    if not 0.0 <= score <= 1.0:  # 3
        problem = "is missing" if given in (None, "") else f"{str(value)[:40]!r} is neither 0 to 1, nor pass or fail"
        raise bad_field(shown, line, "score", problem)
    return score


# -- beside the structural grade -------------------------------------------------------------------------------------


def compare_judgements(
    judgements: Iterable[Judgement], outputs: Sequence[Mapping[str, Any]], shown: str
) -> dict[str, Any]:
    """`outputs`: as `plan_report.plan_report` lists them. The same whatever the order of rows. Raises FixtureError for
    a row of an output that there is not.

    agreement  structure and each judge, structure and the judges' mean, judge and judge: outputs that both graded, how
               often both say pass or both fail (with Wilson's interval), and Cohen's kappa
    models     the mean score over outputs, of each the mean over its judges
    """
    graded = {(one["model"], one["fixture"]): one for one in outputs}
    scores: dict[Key, dict[str, float]] = {}
    notes: dict[Key, dict[str, str]] = {}
    for one in sorted(judgements, key=lambda one: (one.model, one.fixture, one.judge)):
        key = (one.model, one.fixture)
        if key not in graded:
            _refuse(one, graded, shown)
        scores.setdefault(key, {})[one.judge] = one.score
        if one.note:
            notes.setdefault(key, {})[one.judge] = one.note
    return {
        "pass_from": PASS,
        "agreement": _agreement(scores, graded),
        "models": _models(scores, graded),
        "outputs": [
            {"model": key[0], "fixture": key[1], "passed": graded[key]["passed"], "judges": judged,
             **({"notes": notes[key]} if key in notes else {})}
            for key, judged in scores.items()
        ],
    }  # fmt: skip


def _refuse(one: Judgement, graded: Mapping[Key, Any], shown: str) -> None:
    if one.fixture not in {fixture for _, fixture in graded}:
        raise bad_field(shown, one.line, "fixture", f"no graded output is of '{one.fixture}'")
    if one.model not in {model for model, _ in graded}:
        raise bad_field(shown, one.line, "model", f"no graded output is of '{one.model}'")
    raise bad_field(shown, one.line, "fixture", f"'{one.model}' has no graded output of '{one.fixture}'")


def _agreement(scores: Mapping[Key, Mapping[str, float]], graded: Mapping[Key, Any]) -> list[dict[str, Any]]:
    judges = sorted({judge for judged in scores.values() for judge in judged})
    says: dict[str, dict[Key, bool]] = {STRUCTURE: {key: bool(graded[key]["passed"]) for key in scores}}
    for judge in judges:
        says[judge] = {key: judged[judge] >= PASS for key, judged in scores.items() if judge in judged}
    says[MEAN] = {key: _mean(judged.values()) >= PASS for key, judged in scores.items()}
    pairs = [(STRUCTURE, judge) for judge in judges]
    if len(judges) > 1:
        pairs += [(STRUCTURE, MEAN), *combinations(judges, 2)]
    return [found for one, other in pairs if (found := _pair(one, other, says[one], says[other]))]


def _pair(one: str, other: str, mine: Mapping[Key, bool], yours: Mapping[Key, bool]) -> dict[str, Any]:
    """Empty: they graded nothing in common."""
    shared = [(mine[key], yours[key]) for key in mine if key in yours]
    if not shared:
        return {}
    agreed = sum(a == b for a, b in shared)
    low, high = wilson(agreed, len(shared))
    value = kappa(shared)
    return {
        "between": [one, other], "n": len(shared), "agreed": agreed, "agreement": round(agreed / len(shared), 4),
        "low": round(low, 4), "high": round(high, 4), "kappa": None if value is None else round(value, 4),
    }  # fmt: skip


def _models(scores: Mapping[Key, Mapping[str, float]], graded: Mapping[Key, Any]) -> dict[str, Any]:
    found = {}
    for model in sorted({model for model, _ in scores}):
        own = {key: _mean(judged.values()) for key, judged in scores.items() if key[0] == model}
        low, high = wilson(math.fsum(own.values()), len(own))
        found[model] = {
            "n": len(own), "mean": round(_mean(own.values()), 4), "low": round(low, 4), "high": round(high, 4),
            "structure": round(_mean([graded[key]["score"] for key in own]), 4),
        }  # fmt: skip
    return found


def _mean(values: Iterable[float]) -> float:
    """Exact in its sum: the same in whatever order."""
    listed = list(values)
    return math.fsum(listed) / len(listed)
