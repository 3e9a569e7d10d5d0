"""`stoker decisions`, `stoker explain`: what became of requests. From the running Stoker, else from its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import NotRunning, RequestRefused, UsageError
from stoker.cli.console.installation import Installation, find_installation, find_running
from stoker.extensions import missing_because, offered

if TYPE_CHECKING:
    from stoker.domain.decision import Decision

DEFAULT_LIMIT, MAX_LIMIT = 20, 10_000
"""Records that are listed unless another number is asked for, and the most that can be."""


def decisions(
    config: options.Config = None,
    state: options.State = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            max=MAX_LIMIT,
            help="How many of the newest records. Default: 20; with --routes, all.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print further records as they come, until Ctrl-C.")
    ] = False,
    routes: Annotated[
        bool, typer.Option("--routes", help="Summarise routing by class and tier: accepted, escalated, cost, saved.")
    ] = False,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Print a Mooncake trace (arrivals and lengths) for `eval benchmark --replay`."),
    ] = False,
    json: options.Json = False,
) -> None:
    """List the newest requests and their outcomes. Also works if Stoker does not run, except for --follow."""
    if follow + routes + trace > 1:
        raise UsageError("--follow, --routes and --trace exclude each other: give one")
    installation = find_installation(config, state) if routes else find_running(config, state)
    if follow:
        _follow(installation, limit or DEFAULT_LIMIT, json)
        return
    found = _recent(installation, limit or (MAX_LIMIT if routes else DEFAULT_LIMIT))
    if trace:
        _ask_lab("decisions-trace", "--trace")(found)
    elif routes:
        _ask_lab("decisions-routes", "--routes")(installation, found, json)
    elif json:
        terminal.emit([_document(d) for d in found])
    elif not found:
        terminal.say("no requests are recorded yet")
    else:
        columns = (
            "REQUEST",
            "AT",
            "MODEL",
            "SERVE",
            "STATUS",
            "OUTCOME",
            "WAITED",
            "FIRST TOKEN",
            "WHOLE",
            "IN",
            "OUT",
        )
        right = ("STATUS", "WAITED", "FIRST TOKEN", "WHOLE", "IN", "OUT")
        terminal.table(columns, [_row(d) for d in found], right=right)
        terminal.note(f"one in full: stoker explain {found[0].id}{installation.place}")


def _follow(installation: Installation, limit: int, json: bool) -> None:
    """One line each; with `json` a JSON document on one line each. Ctrl-C is how it ends."""
    import msgspec

    from stoker.cli.commands import decisions_follow

    def waits(why: str) -> None:
        terminal.note(f"stoker: {why}; waiting for it")

    try:
        with installation.control() as control:
            for decision in decisions_follow.follow(control, limit, waits):
                terminal.say(msgspec.json.encode(decision).decode() if json else decisions_follow.line(decision))
    except KeyboardInterrupt:
        return


def _ask_lab(offer: str, option: str) -> Callable[..., None]:
    """Raises UsageError: the extension cannot be used."""
    ask: Callable[..., None] | None = offered(offer)
    if ask is None:
        raise UsageError(f"{option} needs the extension lab, {missing_because('lab')}")
    return ask


def explain(
    request_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[REQUEST_ID]", help="The x-request-id of a reply. Default: the newest request.", show_default=False
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Explain the newest request that failed.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Explain one request: what it asked for, which serves were considered, how it waited and ended."""
    if request_id is not None and failed:
        raise UsageError("--failed takes the newest failure, and a request was named: leave out one of them")
    installation = find_running(config, state)
    found, known = _one(installation, request_id or _newest(installation, failed))
    if json:
        terminal.emit(_document(found))
    else:
        from stoker.gateway.explain.explanation import explain as explained
        from stoker.gateway.explain.facts import Fact, as_text

        facts = explained(found).facts if known is None else [Fact(**one) for one in known]
        terminal.say(as_text(found.id, facts))


def _recent(installation: Installation, limit: int) -> list[Decision]:
    try:
        with installation.control() as control:
            return control.decisions(limit)
    except NotRunning:
        from stoker.store.decisions import read_recent

        path = installation.state / "decisions.db"
        return read_recent(path, limit) if path.exists() else []


def _newest(installation: Installation, failed: bool) -> str:
    """The id of the newest request, or of the newest that failed. Raises RequestRefused if there is none."""
    try:
        with installation.control() as control:
            newest = [one for one in control.decisions(1, failed) if one.is_failed or not failed]
    except NotRunning:
        from stoker.store.decisions import read_newest_failed, read_recent

        path = installation.state / "decisions.db"
        found = [read_newest_failed(path)] if failed else read_recent(path, 1)
        newest = [one for one in found if one is not None]
    if not newest:
        what, more = (
            ("no failed request is recorded", f"`stoker decisions{installation.place}` lists requests")
            if failed
            else ("no request is recorded yet", f"`stoker client curl{installation.place}` prints a first one")
        )
        raise RequestRefused(f"{what} under {installation.state}; {more}", code="unknown_request", status=404)
    return newest[0].id


def _one(installation: Installation, request_id: str) -> tuple[Decision, list[dict[str, str]] | None]:
    """With the facts that only a running Stoker knows; None: nothing runs."""
    found: Decision | None
    try:
        with installation.control() as control:
            return control.decision(request_id)
    except NotRunning:
        from stoker.store.decisions import read_one

        path = installation.state / "decisions.db"
        found = read_one(path, request_id) if path.exists() else None
    except RequestRefused as error:
        if error.status != 404:
            raise
        found = None
    if found is None:
        raise RequestRefused(
            f"no request '{request_id}' is recorded under {installation.state}: it is too old, another Stoker served "
            "it, or it is one of many similar refusals, which are only counted; list the newest: stoker "
            f"decisions{installation.place}",
            code="unknown_request",
            status=404,
        )
    return found, None


def _document(decision: Decision) -> object:
    import msgspec

    return msgspec.to_builtins(decision)


def _row(decision: Decision) -> tuple[str, ...]:
    return (
        decision.id,
        figures.moment(decision.at),
        decision.model,
        decision.serve or figures.UNKNOWN,
        str(decision.status or figures.UNKNOWN),
        decision.outcome,
        figures.seconds(decision.queued),
        figures.seconds(decision.ttft),
        figures.seconds(decision.latency),
        figures.number(decision.input_tokens),
        figures.number(decision.output_tokens),
    )
