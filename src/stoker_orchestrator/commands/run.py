"""`stoker run`: one prompt to an orchestrator, block by block."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, NotRunning, RequestRefused, UnreadableAnswer, UsageError
from stoker.cli.console.installation import Installation, find_installation

if TYPE_CHECKING:
    from stoker.cli.console.answer_stream import AnswerStream
    from stoker.cli.console.answers import StatusAnswer
    from stoker.domain.decision import Decision
    from stoker.domain.errors import StokerError
    from stoker_orchestrator.commands.run_request import SavedRequest
    from stoker_orchestrator.commands.run_view import RunView

_POLL = 0.15
"""Seconds between two looks at the scratchpad."""


def policy_names(incomplete: str) -> list[str]:
    from stoker_orchestrator.orchestrator import Policy

    return [policy.value for policy in Policy if policy.value.startswith(incomplete)]


def run(
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="[PROMPT]", help="What to write; `-` reads it from stdin.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="The orchestrator. Default: the only one that is configured.",
            autocompletion=options.orchestrator_names, show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="POLICY", help="`block_by_block`, `simple` or `by-class`. Default: as configured.",
            autocompletion=policy_names, show_default=False,
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="DIR", help="Write the files that blocks name here. Default: as configured.",
            autocompletion=options.directories, show_default=False,
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="FILE", help="Add this file to the prompt (repeatable); only then may it be replaced.",
            autocompletion=options.project_files, show_default=False,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="REQUEST", help="Send an earlier request again, and go on after its blocks.",
            autocompletion=options.orchestrated_requests, show_default=False,
        ),
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Send PROMPT to an orchestrator: blocks that pass go to stdout, what happens meanwhile to stderr.

    Without a running Stoker it starts one for this request. Ctrl-C ends the request and keeps its blocks.
    """
    from stoker.cli.commands.run_stoker import running_stoker

    if (prompt is None) == (resume is None):
        place = options.same_place(config, state)
        resuming = f"stoker run --resume REQUEST{place}"
        raise UsageError(f'give either a prompt or --resume: stoker run "PROMPT"{place}, or {resuming}')
    if resume is not None and (model or policy or project or file):
        raise UsageError("--resume sends the same request again: leave out --model, --policy, --project and --file")
    _check_policy(policy)
    installation = find_installation(config, state)
    saved, headers = _load(installation, resume) if resume is not None else (None, {})
    if saved is None and model is None and installation.settings is not None:
        _only(installation.settings.names_in("orchestrator"), installation.place)  # before anything is started
    _end_on_sigterm()
    try:
        with running_stoker(installation) as status:
            if saved is None:
                text = sys.stdin.read() if prompt == "-" else prompt or ""
                name = model or _only([one.name for one in status.orchestrators], installation.place)
                saved = _compose(text, name, policy, project, file or [], status)
                headers = saved.headers
            code = _run(installation, saved, headers, json)
    except KeyboardInterrupt:  # before the request was sent, or after it ended
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)


def _check_policy(policy: str | None) -> None:
    known = policy_names("")
    if policy is not None and policy not in known:
        raise UsageError(f"there is no policy '{policy}'; there are {', '.join(known)}", code="unknown_policy")


def _only(names: Sequence[str], place: str) -> str:
    """The only orchestrator. Raises UsageError."""
    if len(names) == 1:
        return names[0]
    if names:
        raise UsageError(f"which orchestrator? name one of them: --model {names[0]} (there are {', '.join(names)})")
    raise UsageError(
        "no orchestrator is configured: add [orchestrator.NAME] with `worker` to the configuration "
        "(docs/guides/orchestrator.md), or try the one of the demo: stoker up --demo. To ask a model without one: "
        f"stoker client curl{place}",
        code="no_orchestrator",
    )


def _load(installation: Installation, request: str) -> tuple[SavedRequest, Mapping[str, str]]:
    from stoker_orchestrator.commands import run_request

    saved, headers = run_request.load(installation.state, request, installation.place)
    if run_request.RESUME not in headers:
        terminal.note(f"stoker: {request} had not begun; it begins anew")
    return saved, headers


def _compose(
    prompt: str, name: str, policy: str | None, project: str | None, files: list[str], status: StatusAnswer
) -> SavedRequest:
    from stoker_orchestrator.commands import run_request

    if not prompt.strip():
        raise UsageError("the prompt is empty: say what to write")
    configured = next((one.project for one in status.orchestrators if one.name == name), "")
    return run_request.compose(name, prompt, files, policy, project, configured)


def _end_on_sigterm() -> None:
    """SIGTERM ends the request as Ctrl-C does: a shell without job control has background commands ignore that."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def _run(installation: Installation, saved: SavedRequest, headers: Mapping[str, str], json: bool) -> int:
    """Send it, show it, report it. The exit code."""
    from stoker.cli.console.answer_stream import AnswerStream
    from stoker_orchestrator.commands import run_request
    from stoker_orchestrator.commands.run_view import RunView

    request = run_request.new_id()
    try:
        run_request.save(installation.state, request, saved)
    except OSError as problem:
        text = (
            f"the request cannot be kept in {installation.state} ({problem.strerror}): check its owner and free space"
        )
        raise RequestRefused(text, code="state_unusable") from problem
    error: StokerError | None = None
    view, is_interrupted = RunView(is_quiet=json), False
    stream = AnswerStream(installation.socket, saved.body.encode(), {**headers, "x-request-id": request})
    try:
        error = _follow(installation, stream, request, view)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        stream.close()
    decision = None if is_interrupted else _decision(installation, request)
    if json:
        outcome = "interrupted" if is_interrupted else error.code if error is not None else "finished"
        terminal.emit(_document(request, saved.model, outcome, view, decision, installation, error))
    else:
        _report(request, view, decision, installation, error, is_interrupted)
    return INTERRUPTED if is_interrupted else FAILED if error is not None else 0


def _follow(installation: Installation, stream: AnswerStream, request: str, view: RunView) -> StokerError | None:
    """Until the answer has ended. The error with which it ended."""
    from stoker.cli.console.answer_stream import AnswerBegan, AnswerEnded, AnswerText

    offset = 0
    while True:
        event = stream.next(_POLL)
        offset = _show_records(installation, request, offset, view)
        match event:
            case AnswerBegan(headers=headers):
                view.on_began(headers)
            case AnswerText(text=text):
                view.on_text(text)
            case AnswerEnded(error=error):
                view.end_line()
                return error


def _show_records(installation: Installation, request: str, offset: int, view: RunView) -> int:
    """What is new in the scratchpad; the offset of what comes next."""
    with installation.control() as control:
        try:
            found = control.scratchpad(request, offset)
        except (
            RequestRefused,
            NotRunning,
            UnreadableAnswer,
        ):  # it has none yet; or the answer's end says what happened
            return offset
    view.on_records(found["records"])
    return int(found["next"])


def _decision(installation: Installation, request: str) -> Decision | None:
    with installation.control() as control:
        try:
            return control.decision(request)[0]
        except (RequestRefused, NotRunning, UnreadableAnswer):
            return None


def _report(
    request: str, view: RunView, decision: Decision | None, installation: Installation, error: StokerError | None,
    is_interrupted: bool,
) -> None:  # fmt: skip
    from stoker_orchestrator.commands.run_view import cost_of, summary

    view.end_line()
    if decision is not None and decision.serve:  # else it was refused before anybody was asked
        terminal.note_in("dim", f"{request}: {summary(decision, cost_of(decision, installation.settings))}")
    if error is not None:
        terminal.note(f"stoker: {error.message}")
    if is_interrupted:
        terminal.note(f"stoker: stopped; the blocks of request {request} that passed are kept")
    if is_interrupted or (error is not None and view.committed):
        place = _where(installation)
        terminal.note(f"go on after them: stoker run --resume {request}{place}")


def _where(installation: Installation) -> str:
    """The option that leads to the same installation."""
    source = installation.settings.source if installation.settings is not None else ""
    return f" --config {shlex.quote(source)}" if source else f" --state {shlex.quote(str(installation.state))}"


def _document(
    request: str, model: str, outcome: str, view: RunView, decision: Decision | None, installation: Installation,
    error: StokerError | None,
) -> dict[str, Any]:  # fmt: skip
    from stoker_orchestrator.commands.run_view import cost_of, rate_of

    record = decision.orchestrated if decision is not None else None
    return {
        "request": request, "model": model, "outcome": outcome, "policy": view.policy or None, "text": view.text,
        "blocks": [view.blocks[number] for number in sorted(view.blocks)], "committed": view.committed,
        "input_tokens": decision.input_tokens if decision is not None else None,
        "output_tokens": decision.output_tokens if decision is not None else None,
        "validator_tokens": record.validator_tokens if record is not None else None,
        "wasted_tokens": record.wasted_tokens if record is not None else None,
        "seconds": decision.latency if decision is not None else None,
        "tokens_per_second": rate_of(decision) if decision is not None else None,
        "cost": cost_of(decision, installation.settings) if decision is not None else None,
        "error": None if error is None else {"message": error.message, "code": error.code},
    }  # fmt: skip
