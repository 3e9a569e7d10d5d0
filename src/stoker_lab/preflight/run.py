"""Every check that applies, one after the other, as one artifact."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.run import Finding, Number, Outcome, Run, RunKind, Subject
from stoker_lab.artifacts.result_file import new_id, raw, raws
from stoker_lab.preflight import facts
from stoker_lab.preflight.causes import cause
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    RequestFailed,
    failed,
    why_skipped,
)
from stoker_lab.preflight.pages import PageClient
from stoker_lab.preflight.resuming import FlawsSeen, checks_version, finished, flaws_in
from stoker_lab.preflight.table import CHECKS, NAMES
from stoker_lab.preflight.wordings import WORDINGS, wording_for
from stoker_lab.requests.client import ModelClient

GONE = "the server is gone"
_MIN_OUTPUT = 64
"""Tokens of output that are asked for however short the context is; else a quarter of it at most."""


class PreflightOptions(NamedTuple):
    """How thoroughly; the defaults prove what the serve says of itself."""

    only: Sequence[str] = ()
    """Names of checks; empty: all."""
    needle_ctx: int | None = None
    context: int | None = None
    """Tokens that the configuration promises."""
    wording: str | None = None
    """The name of a wording; None: chosen by the model's id."""
    baseline: Mapping[str, Number] = {}
    seed: int = 1
    concurrency: int = 4
    ignore_known_gaps: bool = False
    """Also the checks that the wording knows its model not to pass."""
    lists_models: bool = True
    """Whether the engine has a list of models. The front door says it itself."""


class PreflightProgress(NamedTuple):
    """A check begins (no finding yet) or is over."""

    at: int
    of: int
    check: str
    finding: Finding | None


OnProgress = Callable[[PreflightProgress], None]


async def run_preflight(
    subject: Subject,
    target: Target,
    options: PreflightOptions | None = None,
    on_progress: OnProgress = lambda step: None,
    keep: Callable[[Run], None] = lambda run: None,
    earlier: Run | None = None,
) -> Run:
    """Measure it. Raises ValueError for an unknown check or wording, before anything is asked.

    A server that dies and a cancel (Ctrl-C) end it early: finished findings are kept, the others are `interrupted`.
    `keep` gets the run as it is after each check but the last. `earlier`: an interrupted run of the same subject and
    options, which goes on: its finished checks are not asked again, and the result has its id.
    """
    options = options or PreflightOptions()
    checks = chosen_checks(options.only)
    if options.wording is not None and options.wording not in WORDINGS:
        raise ValueError(f"there is no wording '{options.wording}'; known: {', '.join(WORDINGS)}")
    began = time.monotonic()
    start = earlier or Run(new_id(RunKind.PREFLIGHT, subject.serve, at := time.time()), RunKind.PREFLIGHT, at, 0.0,
                           subject, Outcome.INTERRUPTED)  # fmt: skip
    done = finished(start)
    pages, client = PageClient(target), ModelClient(target)
    messages = ModelClient(target, Dialect.MESSAGES)
    findings: list[Finding] = []
    ctx: CheckContext | None = None

    def so_far() -> Run:
        every = [*findings, *[_not_begun(check, done) for check in checks[len(findings) :]]]
        return Run(
            id=start.id,
            kind=RunKind.PREFLIGHT,
            at=start.at,
            seconds=start.seconds + time.monotonic() - began,
            subject=subject,
            outcome=_outcome(every),
            findings=every,
            numbers=_numbers(every),
            settings=raws(_settings(options, ctx)),
            raw=raw(FlawsSeen(ctx.wire_flaws, ctx.is_sampled)) if ctx is not None else start.raw,
        )

    try:
        ctx = await _about(pages, client, messages, options, subject.fingerprint.parts.get("model", ""))
        seen = flaws_in(start)
        ctx.wire_flaws += seen.wire_flaws
        ctx.is_sampled = seen.is_sampled
        for number, check in enumerate(checks):
            if (known := done.get(check.name)) is not None:
                findings.append(known)
                continue
            on_progress(PreflightProgress(number, len(checks), check.name, None))
            finding = await _run_check(check, client, ctx)
            findings.append(finding)
            on_progress(PreflightProgress(number, len(checks), check.name, finding))
            if finding.outcome is Outcome.INTERRUPTED:
                break
            if len(findings) < len(checks):
                keep(so_far())
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.uncancel():  # more than one wants us gone
            raise
    finally:
        client.close()
        messages.close()
        pages.close()
    return so_far()


def _not_begun(check: PreflightCheck, done: Mapping[str, Finding]) -> Finding:
    return done.get(check.name) or Finding(check.name, Outcome.INTERRUPTED, "not begun")


def chosen_checks(only: Sequence[str]) -> list[PreflightCheck]:
    """In the table's order. Raises ValueError for an unknown name."""
    for name in only:
        if name not in NAMES:
            raise ValueError(f"there is no check '{name}'; known: {', '.join(NAMES)}")
    return [check for check in CHECKS if not only or check.name in only]


async def _about(
    pages: PageClient, client: ModelClient, messages: ModelClient, options: PreflightOptions, weights: str
) -> CheckContext:
    """`weights`: their digest, if it is known."""
    known = await facts.find_facts(pages, client, options.context, options.lists_models)
    wording = WORDINGS[options.wording] if options.wording else wording_for(known.model, weights)
    if options.ignore_known_gaps:
        wording = wording._replace(known_gaps={})
    if known.context is not None:
        wording = wording._replace(limit=min(wording.limit, max(_MIN_OUTPUT, known.context // 4)))
    return CheckContext(
        facts=known,
        wording=wording,
        pages=pages,
        messages=messages if known.speaks_messages else None,
        needle_ctx=options.needle_ctx,
        baseline=options.baseline,
        seed=options.seed,
        run=secrets.randbits(32),
        concurrency=options.concurrency,
    )


async def _run_check(check: PreflightCheck, client: ModelClient, ctx: CheckContext) -> Finding:
    """1. skipped: known gap or not applicable  2. run within its time limit  3. a timeout or failed request: failed"""
    began = time.monotonic()
    reason = why_skipped(check, ctx)
    if reason:  # 1
        return Finding(check.name, Outcome.NOT_APPLICABLE, reason)
    try:
        async with asyncio.timeout(check.seconds):
            result = await check.run(client, ctx)  # 2
    except TimeoutError:  # 3
        result = failed("timeout", f"not done within {check.seconds:g} s")
    except RequestFailed as error:
        result = failed("no-answer", error.sentence())
    if result.outcome is Outcome.FAILED and await _is_gone(ctx):
        result = CheckResult(Outcome.INTERRUPTED, f"{GONE} ({result.summary})")
    took = time.monotonic() - began
    finding = Finding(check.name, result.outcome, result.summary, numbers=dict(result.numbers), seconds=took)
    if result.outcome is Outcome.FAILED:
        finding.cause, finding.fix = cause(check.name, result.cause_key)
    return finding


async def _is_gone(ctx: CheckContext) -> bool:
    """Nothing listens there any more. What never listened is gone too."""
    return not (await ctx.pages.get("/v1/models")).status and not (await ctx.pages.get("/health")).status


def _outcome(findings: Sequence[Finding]) -> Outcome:
    """A part is no verdict, whatever failed in it."""
    found = {finding.outcome for finding in findings}
    for outcome in (Outcome.INTERRUPTED, Outcome.FAILED):
        if outcome in found:
            return outcome
    return Outcome.PASSED if Outcome.PASSED in found else Outcome.NOT_APPLICABLE


def _numbers(findings: Sequence[Finding]) -> dict[str, Number]:
    """`CHECK.NUMBER`; `tools.passed` and `tools.n` over all tool checks; how many checks passed."""
    numbers: dict[str, Number] = {}
    for finding in findings:
        numbers |= {f"{finding.name}.{name}": value for name, value in finding.numbers.items()}
    tools = [finding.numbers for finding in findings if finding.name.startswith("tool-") and "n" in finding.numbers]
    if tools:
        numbers["tools.passed"] = sum(found.get("passed", found["n"]) or 0 for found in tools)
        numbers["tools.n"] = sum(found["n"] or 0 for found in tools)
    judged = [one for one in findings if one.outcome in (Outcome.PASSED, Outcome.FAILED)]
    numbers["gates.passed"] = sum(one.outcome is Outcome.PASSED for one in judged)
    numbers["gates.n"] = len(judged)
    return numbers


def _settings(options: PreflightOptions, ctx: CheckContext | None) -> dict[str, Any]:
    found: dict[str, Any] = {"only": list(options.only), "needle_ctx": options.needle_ctx, "seed": options.seed,
                             "options": recorded_options(options)}  # fmt: skip
    if ctx is not None:
        known = ctx.facts
        found |= {"wording": ctx.wording.name, "context": known.context, "modalities": sorted(known.modalities),
                  "thinks": known.thinks, "messages": known.speaks_messages}  # fmt: skip
    return found


def recorded_options(options: PreflightOptions) -> dict[str, Any]:
    """What findings depend on beside the subject: the options, and the version of the checks."""
    baseline = hashlib.sha256(msgspec.json.encode(options.baseline, order="sorted")).hexdigest()[:16]
    given = {**options._asdict(), "only": list(options.only), "baseline": baseline}
    return {**given, "checks": checks_version()}


def recorded_numbers(run: Run) -> dict[str, Number]:
    """The prompt tokens and the marks of answers of an earlier run: a baseline."""
    kept = {one.name: one.numbers for one in run.findings}
    answers = {name: mark for name, mark in kept.get("same-model", {}).items() if name.startswith("answer-")}
    return dict(kept.get("prompt-tokens", {})) | answers
