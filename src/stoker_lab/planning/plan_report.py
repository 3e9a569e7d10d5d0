"""Grades plans that were written before: a pure function from outputs to a report, byte for byte the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker_lab.planning.judgements import Judgement, compare_judgements
from stoker_lab.statistics.stats import wilson
from stoker_lab.suites.check_kinds import PlanCheck
from stoker_lab.suites.checkers.plain_text import answer_text
from stoker_lab.suites.checkers.plans import grade_plan
from stoker_lab.suites.fixture import Fixture, FixtureError, digest
from stoker_lab.suites.grading import AskFixture


class PlanOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model wrote to one fixture."""

    fixture: str
    model: str
    text: str


class JudgementFile(NamedTuple):
    rows: Sequence[Judgement]
    name: str
    """What messages call it."""


_decoder = msgspec.json.Decoder(PlanOutput)


def shipped() -> list[PlanOutput]:
    """The ones in the package: good plans and bad ones."""
    return _read(files("stoker_lab.planning") / "outputs")


def read(path: Path) -> list[PlanOutput]:
    """Those of a file, or of every `*.jsonl` of a directory. Raises FixtureError, which names file and line."""
    if path.is_dir():
        return _read(path)
    if not path.exists():
        raise FixtureError(f"{path} does not exist: outputs are read from *.jsonl files")
    return _lines(path)


def _read(directory: Any) -> list[PlanOutput]:
    found = []
    paths = sorted((path for path in directory.iterdir() if path.name.endswith(".jsonl")), key=lambda path: path.name)
    for path in paths:
        found += _lines(path)
    return found


def _lines(path: Any) -> list[PlanOutput]:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise FixtureError(f"{path} cannot be read: {error.strerror}") from error
    return [_parse(line, f"{path}, line {number}") for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def _parse(line: bytes, place: str) -> PlanOutput:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FixtureError(f"{place}: {str(error)[:200]}") from None


def lines(outputs: Iterable[PlanOutput]) -> bytes:
    return b"".join(msgspec.json.encode(one) + b"\n" for one in outputs)


async def write_plans(
    fixtures: Iterable[Fixture],
    ask: AskFixture,
    model: str,
    on_plan: Callable[[int, int], None] = lambda number, of: None,
) -> list[PlanOutput]:
    """Asks for every plan anew. One that does not come is an empty text. `on_plan`: the plan with this number, from 1,
    is asked for now."""
    found: list[PlanOutput] = []
    asked = [fixture for fixture in fixtures if isinstance(fixture.check, PlanCheck)]
    for number, fixture in enumerate(asked, 1):
        on_plan(number, len(asked))
        reply = await ask(fixture)
        found.append(PlanOutput(fixture.id, model, answer_text(reply.answer) if reply.timing.is_ok else ""))
    return found


def plan_report(
    fixtures: Sequence[Fixture],
    outputs: Iterable[PlanOutput],
    baselines: Iterable[PlanOutput] = (),
    judged: JudgementFile | None = None,
) -> bytes:
    """A JSON document: `dataset`; `models`, by name; `outputs`, by model and fixture. No time and no path is in it.

    `baselines`: outputs of other models, graded the same and named under `baselines`. `judged`: what judges say of any
    of them, under `judged` (see `judgements.compare_judgements`).

    Raises FixtureError: an output of a fixture that there is not, or that asks for no plan; two of one; a baseline that
    has the name of a model that is graded; a judgement of an output that there is not.
    """
    outputs, baselines = list(outputs), list(baselines)
    names = sorted({output.model for output in baselines})
    if both := sorted({output.model for output in outputs}.intersection(names)):
        raise FixtureError(f"'{both[0]}' is both a baseline and a graded model: rename one of them")
    checks = {one.id: one.check for one in fixtures if isinstance(one.check, PlanCheck)}
    graded_: dict[tuple[str, str], dict[str, Any]] = {}
    for output in (*outputs, *baselines):
        key = (output.model, output.fixture)
        check = checks.get(output.fixture)
        if check is None:
            raise FixtureError(f"'{output.fixture}', which '{output.model}' answers, is not a planning fixture")
        if key in graded_:
            raise FixtureError(f"'{output.model}' answers '{output.fixture}' twice")
        graded_[key] = _graded(output, check)
    listed = [graded_[key] for key in sorted(graded_)]
    document: dict[str, Any] = {
        "dataset": digest(one for one in fixtures if one.id in checks),
        "models": _models(listed),
        "outputs": listed,
    }
    if names:
        document["baselines"] = names
    if judged is not None:
        document["judged"] = compare_judgements(judged.rows, listed, judged.name)
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"


def _graded(output: PlanOutput, check: PlanCheck) -> dict[str, Any]:
    found = grade_plan(check, output.text)
    return {
        "model": output.model, "fixture": output.fixture, "passed": found.passed, "score": found.score,
        "steps": found.steps, "shares": dict(found.shares),
    }  # fmt: skip


def _models(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for model in sorted({one["model"] for one in listed}):
        own = [one for one in listed if one["model"] == model]
        passed = sum(one["passed"] for one in own)
        low, high = wilson(passed, len(own))
        shares = {name: _mean([one["shares"][name] for one in own]) for name in own[0]["shares"]}
        found[model] = {
            "n": len(own), "passed": passed, "rate_low": round(low, 4), "rate_high": round(high, 4),
            "score": _mean([one["score"] for one in own]), "shares": shares,
        }  # fmt: skip
    return found


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)
