"""`stoker eval validator`: how often a validator model is wrong about blocks whose faults are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker_lab.commands.error_rates import rate_cells, rate_fields
from stoker_lab.commands.interruptible import as_typed, say_how_to_go_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve
    from stoker.exchange.internal_client import InternalClient
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.validator.planted_faults import BlockToJudge
    from stoker_lab.validator.rates import StoredVerdict, StoredVerdicts, ValidatorRates
    from stoker_orchestrator.orchestrator import Orchestrator


class ValidatorToMeasure(NamedTuple):
    serve: str
    prompt: str
    """With `{task}` and `{block}`."""
    timeout: float = 60.0
    """Seconds for one verdict."""


def validator(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An orchestrator with a validator, or a serve; with --class a tier or a serve."
        ),
    ],
    task_class: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Measure NAME, a tier or a serve, as the judge of live answers of this class.",
            show_default=False,
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --class: answers of known worth, for classes of which none ship.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask everything again, whatever was answered before.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Measure how often a validator model fails right blocks (false alarms) and passes wrong ones (misses).

    It judges 60 blocks of code that are right, and the same with one fault each. Interrupted with Ctrl-C, the next call
    resumes. `stoker config check` reads the result.

    With --class: how often a judge of live answers (`[router.shadow] judge`) fails right answers of a class, and passes
    wrong ones. Its grades count only at classes where it passed.
    """
    installation = find_installation(config, state)
    given = {"--class": task_class, "--cases": cases, "--config": config, "--state": state}
    goes_on = say_how_to_go_on("the verdicts so far are kept", as_typed("eval validator", [name], given))
    if task_class is not None:
        from stoker_lab.commands.judge import measure_judge

        with goes_on:
            measure_judge(installation, name, task_class, cases, fresh, json)
        return
    if cases is not None:
        raise UsageError("--cases needs --class CLASS: they are answers of a class")
    measured = _to_measure(installation, name)
    with installation.control() as control:
        control.switch(measured.serve)
    with goes_on:
        rates = measure_validator(installation, measured, fresh)
    if json:
        terminal.emit(_document(measured, rates))
    else:
        _show(measured, rates, options.same_place(config, state))


def validator_prompt(orchestrator: Orchestrator) -> str:
    """Its own, or the one that ships."""
    from stoker_orchestrator.prompts import VALIDATOR_PROMPT

    return orchestrator.validator_prompt or VALIDATOR_PROMPT


def configured_model(serve: Serve, state: Path) -> str:
    """Digest of the model that the configuration names: its files, template, quantisation and sampling. No engine is
    asked. Weights are hashed once, at about a gigabyte per second.
    """
    import hashlib
    import json

    from stoker.domain.run import IDENTITY_PARTS
    from stoker.store.files.hashes import HashCache
    from stoker_lab.artifacts import fingerprint
    from stoker_lab.artifacts.fingerprint import EngineReport

    digests = HashCache(state).hash_all(fingerprint.identity_files(serve))
    parts = fingerprint.fingerprint(serve, EngineReport(), digests).parts
    known = {name: parts[name] for name in IDENTITY_PARTS if name in parts}
    served = [serve.served_name, None if "model" in known else serve.cmd]  # else only the command names the model
    return hashlib.sha256(json.dumps([known, *served], sort_keys=True).encode()).hexdigest()


def validator_serve(settings: Settings, orchestrator: Orchestrator) -> str:
    """The serve that judges; a tier's name means its serve; empty: none does."""
    tiers = () if settings.router is None else settings.router.tiers
    name = orchestrator.validator
    return next((tier.serve for tier in tiers if tier.name == name), name)


def _to_measure(installation: Installation, name: str) -> ValidatorToMeasure:
    """What an orchestrator or a serve means. Raises UsageError."""
    from stoker_orchestrator.orchestrator import orchestrators_of
    from stoker_orchestrator.prompts import VALIDATOR_PROMPT

    settings = installation.settings
    if settings is None:
        return ValidatorToMeasure(name, VALIDATOR_PROMPT)
    orchestrator = next((one for one in orchestrators_of(settings) if one.name == name), None)
    if orchestrator is None:
        return ValidatorToMeasure(installation.serve(name).name, VALIDATOR_PROMPT)
    if not orchestrator.validator:
        raise UsageError(
            f"orchestrator '{name}' has no validator: name a serve, stoker eval validator SERVE{installation.place}"
        )
    serve = validator_serve(settings, orchestrator)
    return ValidatorToMeasure(serve, validator_prompt(orchestrator), orchestrator.validator_timeout)


def measure_validator(installation: Installation, measured: ValidatorToMeasure, fresh: bool) -> ValidatorRates:
    """Ask what was not asked yet, and reckon the rates."""
    from stoker_lab.commands.running_serve import running_at
    from stoker_lab.lock import hold_measurement_lock
    from stoker_lab.validator import rates

    known = running_at(installation, measured.serve)
    path = rates.path_of(installation.state, measured.serve, measured.prompt)
    with hold_measurement_lock(installation.state, known.lock, f"a measurement of {measured.serve} as a validator"):
        return rates.rates_of(_ask_all(known, measured, path, fresh))


def _ask_all(known: RunningServe, measured: ValidatorToMeasure, path: Path, fresh: bool) -> Mapping[str, StoredVerdict]:
    """The blocks that have no verdict yet, one after the other; each verdict is written as it comes."""
    from stoker_lab.artifacts import record_file
    from stoker_lab.commands.questions import ask_each
    from stoker_lab.validator import rates
    from stoker_lab.validator.planted_faults import blocks_to_judge
    from stoker_lab.validator.rates import StoredVerdict

    serve = known.serve
    head = rates.header_of(known.model_asked, configured_model(serve, known.installation.state))
    kept = rates.load_verdicts(path)
    goes_on = kept.header is not None and kept.header.is_same_model(head) and not fresh
    left = [block for block in blocks_to_judge() if not goes_on or block.digest not in kept.verdicts]
    with record_file.writer(path, head, goes_on) as write:

        def keep(block: BlockToJudge, said: tuple[str, int] | None, seconds: float) -> None:
            outcome, tokens = said or ("unreadable", 0)
            write(StoredVerdict(block.digest, outcome, seconds, tokens))

        async def ask(client: InternalClient, block: BlockToJudge) -> tuple[str, int]:
            return await _judge(client, known, measured, block)

        ask_each(known, left, ask, keep, "verdicts", measured.timeout)
    return rates.load_verdicts(path).verdicts


async def _judge(
    client: InternalClient, known: RunningServe, measured: ValidatorToMeasure, block: BlockToJudge
) -> tuple[str, int]:
    """The outcome and its tokens. Raises StokerError and TimeoutError."""
    import secrets
    from functools import partial

    from stoker_orchestrator.checks.validator import MAX_TOKENS, parse_verdict, validator_question
    from stoker_orchestrator.loop.blocks import WorkerBlock

    code = WorkerBlock(block.text, is_code=True, language="python")
    ask = partial(validator_question, measured.prompt, block.task, code, "", secrets.token_hex(16))
    usage, text = await client.ask(known.serve, known.target, ask, measured.timeout)
    verdict = parse_verdict(text) if usage.output is None or usage.output < MAX_TOKENS else None
    outcome = "unreadable" if verdict is None else "pass" if verdict.passed else "fail"
    return outcome, (usage.input or 0) + (usage.output or 0)


def _show(measured: ValidatorToMeasure, rates: ValidatorRates, place: str) -> None:
    serve = measured.serve
    took = "" if rates.seconds is None else f", {figures.seconds(rates.seconds)} each"
    terminal.say(f"{serve} judged {rates.unreadable.n} of {rates.total} blocks{took}")
    named = [("false alarms", rates.false_alarms), ("misses", rates.misses)]
    named += [(f"misses, {kind}", rate) for kind, rate in rates.misses_by_kind.items()]
    named += [("unreadable", rates.unreadable)]
    terminal.table(("", "COUNT", "RATE", "95 %"), [rate_cells(*one) for one in named], right=("COUNT", "RATE"))
    terminal.say(conclusion(serve, rates, place))


def conclusion(serve: str, rates: ValidatorRates, place: str = "") -> str:
    """One sentence: what the rates mean. `place`: the options that lead to the same Stoker."""
    if not rates.is_complete:
        judged = f"{rates.unreadable.n} of {rates.total}"
        return f"'{serve}' judged only {judged} blocks; continue: stoker eval validator {serve}{place}"
    if rates.is_chance:
        return (
            f"'{serve}' passes faults as readily as right blocks: as a validator it is decoration; "
            "use another model, or remove it"
        )
    return f"'{serve}' tells wrong blocks from right ones better than chance"


def _document(measured: ValidatorToMeasure, rates: ValidatorRates) -> dict[str, object]:
    return {
        "serve": measured.serve, "total": rates.total, "complete": rates.is_complete,
        "false_alarms": rate_fields(rates.false_alarms), "misses": rate_fields(rates.misses),
        "misses_by_kind": {kind: rate_fields(rate) for kind, rate in rates.misses_by_kind.items()},
        "unreadable": rate_fields(rates.unreadable), "seconds": rates.seconds, "better_than_chance":
        rates.is_complete and not rates.is_chance,
    }  # fmt: skip


def validator_warnings(settings: Settings) -> list[str]:
    """Validators that were not measured, were another model then, or are no better than chance: one sentence each."""
    from stoker_lab.validator import rates
    from stoker_orchestrator.orchestrator import orchestrators_of

    found = []
    for one in orchestrators_of(settings):
        if not (serve := validator_serve(settings, one)):
            continue
        path = rates.path_of(settings.paths.state, serve, validator_prompt(one))
        stored = rates.load_verdicts(path)
        seen = rates.rates_of(stored.verdicts)
        if seen.is_complete and _was_another(stored, settings, serve):
            found.append(
                f"orchestrator '{one.name}': its validator '{serve}' was another model when it was measured, so its "
                f"error rates do not count: stoker eval validator {one.name}"
            )
        elif not seen.is_complete:
            found.append(
                f"orchestrator '{one.name}': nobody measured how often its validator '{serve}' is wrong: "
                f"stoker eval validator {one.name}"
            )
        elif seen.is_chance:
            found.append(
                f"orchestrator '{one.name}': its validator '{serve}' is decoration: it passed {seen.misses.errors} of "
                f"{seen.misses.n} planted faults and {seen.false_alarms.n - seen.false_alarms.errors} of "
                f"{seen.false_alarms.n} right blocks, which is not better than chance; use another model, or remove it"
            )
    return found


def _was_another(stored: StoredVerdicts, settings: Settings, name: str) -> bool:
    """Whether the verdicts are of another model than the one that is configured now. What is not known is no reason."""
    serve = next((one for one in settings.serves if one.name == name), None)
    if serve is None or stored.header is None or not stored.header.configured:
        return False
    return stored.header.configured != configured_model(serve, Path(settings.paths.state))
