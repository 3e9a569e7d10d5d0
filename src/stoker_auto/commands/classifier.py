"""`stoker eval classifier`: asks a model to classify the held-out prompts, and says whether it may be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, RequestRefused, UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker_lab.commands.interruptible import as_typed, say_how_to_go_on

if TYPE_CHECKING:
    from stoker.domain.routing import ClassifierModelSettings
    from stoker.exchange.internal_client import InternalClient
    from stoker_auto.classifier.labelled_prompts import ClassifierScore, LabelledPrompt
    from stoker_auto.classifier.proof import ClassifierAnswers, ClassifierProof
    from stoker_lab.commands.running_serve import RunningServe

PATIENCE = 30.0
"""Seconds for one answer. What takes longer than `timeout` counts as none, but another timeout may be set."""


def classifier(
    serve: options.OneServe = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask everything again, whatever was answered before.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Measure whether a model tells classes of requests better than the built-in classifier, so that it may be on.

    Interrupted with Ctrl-C, the next call resumes. Changed settings are judged by the stored answers. Exits 1
    where it may not be on.
    """
    installation = find_installation(config, state)
    settings = _settings(installation, serve)
    name = settings.serve
    with installation.control() as control:
        control.switch(name)
    with say_how_to_go_on(
        "the answers so far are kept",
        as_typed("eval classifier", [name], {"--config": config, "--state": state}),
    ):
        proof = measure_classifier(installation, name, settings, fresh)
    with installation.control() as control:
        if installation.settings is not None:
            control.reload()
    is_configured = _configured(installation) == settings
    if json:
        terminal.emit(_document(settings, proof, is_configured))
    else:
        _show(settings, proof, is_configured)
    if proof.rejection:
        raise typer.Exit(FAILED)


def _configured(installation: Installation) -> ClassifierModelSettings | None:
    router = None if installation.settings is None else installation.settings.router
    return None if router is None else router.classifier


def _settings(installation: Installation, serve: str | None) -> ClassifierModelSettings:
    """Those of the file for the serve that it names, else the defaults. A cloud, which costs, is measured by name."""
    from stoker.domain.routing import ClassifierModelSettings

    configured = _configured(installation)
    if serve is not None:
        serve = serve if installation.settings is None else installation.serve(serve).name
        return configured if configured is not None and configured.serve == serve else ClassifierModelSettings(serve)
    if configured is None:
        name_it = f"stoker eval classifier SERVE{installation.place}"
        raise UsageError(f"which serve? no [router.classifier] is configured: {name_it}")
    if installation.serve(configured.serve).translation.cloud:
        name = configured.serve
        raise UsageError(
            f"'{name}' is a cloud, and asking it costs money: name it, stoker eval classifier "
            f"{name}{installation.place}"
        )
    return configured


def measure_classifier(
    installation: Installation, name: str, settings: ClassifierModelSettings, fresh: bool
) -> ClassifierProof:
    from stoker.domain.task import HIGH_RISK
    from stoker_auto.classifier import proof as proofs
    from stoker_lab.commands.running_serve import running_at
    from stoker_lab.lock import hold_measurement_lock

    known = running_at(installation, name)
    router = None if installation.settings is None else installation.settings.router
    with hold_measurement_lock(installation.state, known.lock, f"a measurement of {name} as a classifier"):
        kept = ask_all(known, proofs.path_of(installation.state, name), fresh)
    return proofs.prove(kept.answers, settings, HIGH_RISK if router is None else router.high_risk)


def ask_all(known: RunningServe, path: Path, fresh: bool) -> ClassifierAnswers:
    """The prompts that have no answer yet, one after the other; each answer is written as it comes."""
    from stoker_auto.classifier import proof as proofs
    from stoker_auto.classifier.labelled_prompts import held_out
    from stoker_lab.artifacts import record_file
    from stoker_lab.commands.questions import ask_each

    serve = known.serve
    head = proofs.header_of(known.model_asked)
    if not head.identity:
        raise RequestRefused(f"the identity of serve '{serve.name}' is unknown, so a measurement would not count")
    kept = proofs.load_answers(path)
    goes_on = kept.header == head and not fresh
    left = [row for row in held_out() if not goes_on or row.digest not in kept.answers]
    with record_file.writer(path, head, goes_on) as write:

        def keep(row: LabelledPrompt, word: str | None, seconds: float) -> None:
            write(proofs.ClassifierAnswer(row.digest, word or "", seconds))

        async def ask(client: InternalClient, row: LabelledPrompt) -> str:
            return await _classified(client, known, row)

        ask_each(known, left, ask, keep, "classes", PATIENCE)
    return proofs.load_answers(path)


async def _classified(client: InternalClient, known: RunningServe, row: LabelledPrompt) -> str:
    """The class that its answer names; empty: none. With the prompt that the running Stoker sends."""
    import secrets
    from functools import partial

    from stoker_auto.classifier.question import class_in_reply, classifier_question

    question = partial(classifier_question, row.outline, secrets.token_hex(16), known.serve.translation.cloud)
    _, reply = await client.ask(known.serve, known.target, question, PATIENCE)
    return class_in_reply(reply, row.outline) or ""


def _show(settings: ClassifierModelSettings, proof: ClassifierProof, is_configured: bool) -> None:
    name = settings.serve
    late = f", {proof.late} later than {figures.seconds(settings.timeout)}" if proof.late else ""
    unclear = f", {proof.unclear} without naming a class" if proof.unclear else ""
    terminal.say(f"{name} answered {proof.asked} of {proof.total} held-out prompts{late}{unclear}")
    cells = [(row, _cell(one), _cell(two), _cell(three)) for row, one, two, three in _rows(proof)]
    head = ("", "BUILT-IN", f"WITH {name}", f"{name} ALWAYS")
    terminal.table(head, cells, right=head[1:])
    if proof.rejection:
        terminal.say(f"off: {proof.rejection}")
    elif is_configured:
        terminal.say(f"on: it is asked if the built-in classifier is less sure than {settings.below:g}")
    else:
        terminal.say(f'it may be used: set serve = "{name}" in [router.classifier]')


def _rows(proof: ClassifierProof) -> list[tuple[str, float | None, float | None, float | None]]:
    from stoker.domain.task import HIGH_RISK

    scores: tuple[ClassifierScore, ClassifierScore, ClassifierScore] = (proof.built_in, proof.together, proof.alone)
    one, two, three = scores
    return [
        ("accuracy", one.accuracy, two.accuracy, three.accuracy),
        *((f"recall of {name}", one.recall(name), two.recall(name), three.recall(name)) for name in HIGH_RISK),
        ("hard negatives taken for high-risk", one.false_alarms, two.false_alarms, three.false_alarms),
        ("cost of mistakes", one.cost, two.cost, three.cost),
    ]


def _cell(value: float | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def _document(settings: ClassifierModelSettings, proof: ClassifierProof, is_configured: bool) -> dict[str, object]:
    from stoker.domain.task import HIGH_RISK

    def fields_of(seen: ClassifierScore) -> dict[str, object]:
        return {"accuracy": seen.accuracy, "recall": {name: seen.recall(name) for name in HIGH_RISK},
                "alarms": seen.false_alarms, "cost": seen.cost}  # fmt: skip

    return {
        "serve": settings.serve, "below": settings.below, "timeout": settings.timeout, "asked": proof.asked,
        "total": proof.total, "unclear": proof.unclear, "late": proof.late, "built_in": fields_of(proof.built_in),
        "beside": fields_of(proof.together), "alone": fields_of(proof.alone),
        "on": not proof.rejection and is_configured,
        "why": proof.rejection or ("" if is_configured else "[router.classifier] names another serve or none"),
    }  # fmt: skip
