"""`stoker eval validator NAME --class CLASS`: how often a judge of live answers is wrong about a class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import figures, terminal
from stoker.cli.console.errors import UsageError, unknown_serve
from stoker.cli.console.installation import Installation
from stoker_lab.commands.error_rates import rate_cells, rate_fields

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.exchange.internal_client import InternalClient
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.validator.judge_cases import JudgeCase
    from stoker_lab.validator.judge_rates import JudgeRates


def measure_judge(
    installation: Installation, name: str, task_class: str, cases: Path | None, fresh: bool, json: bool
) -> None:
    """Ask what was not asked yet, let the running Stoker count the grades, and show the rates. Raises UsageError."""
    from stoker.domain.task import CLASSES
    from stoker_lab.commands.running_serve import serve_behind
    from stoker_lab.validator import judge_cases

    serve = serve_behind(installation, name) or name
    with installation.control() as control:
        status = control.status()
    if status.serve(serve) is None:
        raise unknown_serve(name, status.known_names(), "the running Stoker")
    router = None if installation.settings is None else installation.settings.router
    classes = CLASSES if router is None else router.known
    if task_class not in classes:
        raise UsageError(f"--class: there is no class '{task_class}'; known classes: {', '.join(classes)}")
    found = (
        judge_cases.shipped_cases(task_class) if cases is None else judge_cases.read_cases(cases, task_class, classes)
    )
    if not found:
        raise UsageError(
            f"no answers of class '{task_class}' ship with Stoker: write some, 20 right and 20 wrong ones at least, "
            f"and type stoker eval validator {name} --class {task_class} --cases FILE{installation.place}; "
            "docs/guides/grade-live-answers.md has the form"
        )
    with installation.control() as control:
        control.switch(serve)
    rates = _rates(installation, serve, task_class, found, fresh)
    with installation.control() as control:
        if installation.settings is not None:
            control.reload()
    if json:
        terminal.emit(_document(serve, task_class, rates))
    else:
        _show(name, task_class, rates)


def _rates(installation: Installation, name: str, task_class: str, cases: list[JudgeCase], fresh: bool) -> JudgeRates:
    from stoker_lab.artifacts import record_file
    from stoker_lab.commands.questions import PATIENCE, ask_each
    from stoker_lab.commands.running_serve import running_at
    from stoker_lab.judge_prompt import WORDING
    from stoker_lab.lock import hold_measurement_lock
    from stoker_lab.validator import judge_cases, judge_rates
    from stoker_lab.validator.judge_rates import JudgedCase

    known = running_at(installation, name)
    serve = known.serve
    head = judge_rates.header_of(known.model_asked, WORDING, judge_cases.digest(cases), len(cases))
    path = judge_rates.path_of(installation.state, serve.name, task_class)
    with hold_measurement_lock(installation.state, known.lock, f"a measurement of {name} as a judge"):
        kept = judge_rates.load(path)
        goes_on = kept.header == head and not fresh
        left = [case for case in cases if not goes_on or case.digest not in kept.verdicts]
        with record_file.writer(path, head, goes_on) as write:

            def keep(case: JudgeCase, said: tuple[str, int] | None, seconds: float) -> None:
                verdict, tokens = said or ("unreadable", 0)
                write(JudgedCase(case.digest, case.right, verdict, seconds, tokens))

            async def ask(client: InternalClient, case: JudgeCase) -> tuple[str, int]:
                return await _judge(client, known, case, PATIENCE)

            ask_each(known, left, ask, keep, "verdicts", PATIENCE)
        return judge_rates.rates_of(judge_rates.load(path))


async def _judge(client: InternalClient, known: RunningServe, case: JudgeCase, timeout: float) -> tuple[str, int]:
    """The verdict and its tokens: the question that the running Stoker asks of a live answer."""
    import json
    import secrets
    from functools import partial

    from stoker.domain.dialect import Dialect
    from stoker.request.translate.translate import read_prompt
    from stoker_lab import judge_prompt

    body = json.dumps({"model": "auto", "messages": case.messages, **({"tools": case.tools} if case.tools else {})})
    conversation = judge_prompt.conversation_text(read_prompt(Dialect.CHAT, body.encode())[0])
    if conversation is None:
        return "unreadable", 0
    parts = [case.answer] if case.answer else []
    answer = "\n".join([*parts, *(judge_prompt.call_text(*call) for call in case.calls)])
    cloud = known.serve.translation.cloud
    ask = partial(judge_prompt.judge_question, case.task_class, conversation, answer, secrets.token_hex(16), cloud)
    usage, text = await client.ask(known.serve, known.target, ask, timeout)
    grade = judge_prompt.parse_grade(text)
    return "unreadable" if grade is None else grade.value, (usage.input or 0) + (usage.output or 0)


def _show(name: str, task_class: str, rates: JudgeRates) -> None:
    took = "" if rates.seconds is None else f", {figures.seconds(rates.seconds)} each"
    terminal.say(f"{name} judged {rates.undecided.n} of {rates.total} answers of class {task_class}{took}")
    named = [("false alarms", rates.false_alarms), ("misses", rates.misses), ("undecided", rates.undecided)]
    terminal.table(("", "COUNT", "RATE", "95 %"), [rate_cells(*one) for one in named], right=("COUNT", "RATE"))
    if problem := rates.problem:
        terminal.say(f"its grades do not count at {task_class}: {problem}")
    else:
        terminal.say(f"its grades count at {task_class}")


def _document(serve: str, task_class: str, rates: JudgeRates) -> dict[str, object]:
    return {
        "serve": serve, "class": task_class, "total": rates.total, "complete": rates.is_complete,
        "false_alarms": rate_fields(rates.false_alarms), "misses": rate_fields(rates.misses),
        "undecided": rate_fields(rates.undecided), "seconds": rates.seconds, "counts": not rates.problem,
        "problem": rates.problem,
    }  # fmt: skip


def judge_warnings(settings: Settings) -> list[str]:
    """Classes at which the grades of the configured judge do not count: a sentence for each kind of reason."""
    from stoker_lab.judge_trust import uncounted_classes
    from stoker_lab.judging import measure_command
    from stoker_lab.validator import judge_cases

    router = settings.router
    if router is None or not router.shadow.rate:
        return []
    serves = {serve.name: serve for serve in settings.serves}
    name, gains, unmeasured, unidentified = uncounted_classes(router, serves, Path(settings.paths.state))
    found = []
    if gains:
        found.append(
            f"router.shadow: the judge '{name}', or another tier with its model, may itself answer {', '.join(gains)}: "
            "its grades change nothing there, because each `fail` would send it requests; judge by a tier with other "
            "`classes`; one with `classes = []` only judges"
        )
    if unmeasured:
        shipped = judge_cases.with_cases(unmeasured)
        first = shipped[0] if shipped else unmeasured[0]
        command = measure_command(name, first) + ("" if shipped else " --cases FILE")
        found.append(
            f"router.shadow: the judge '{name}' has not passed a measurement for {', '.join(unmeasured)}: its grades "
            f"change nothing there: {unidentified or command}"
        )
    return found
