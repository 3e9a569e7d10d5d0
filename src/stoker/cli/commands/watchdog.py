"""`stoker watchdog`: does every serve that should be up run, and does it pass the watchdog's checks?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, NotRunning
from stoker.cli.console.installation import find_running
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.cli.console.answers import ServeStatus, StatusAnswer, WatchdogReport

_IS_UP = ("ready", "draining", "held")


def watchdog(
    config: options.Config = None,
    state: options.State = None,
    once: Annotated[
        bool, typer.Option("--once", help="For a timer: print only problems, and exit with 1 if there is one.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show the health of each serve, and when it was last verified. With --once: check, for a timer."""
    document, status = _status(config, state)
    serves, place = status.serves, options.same_place(config, state)
    problems = {serve.name: problem for serve in serves if (problem := problem_of(serve, place))}
    if json:
        serve_reports = [
            {"name": one.get("name"), "state": one.get("state"), **one.get("watchdog", {})}
            for one in document.get("serves", [])
        ]
        terminal.emit({"ok": not problems, "problems": problems, "serves": serve_reports})
    elif once:
        for problem in problems.values():
            terminal.say(problem)
        if not problems:
            terminal.say(_summary(serves))
    else:
        _show(serves, place)
    if once and problems:
        raise typer.Exit(FAILED)


def problem_of(serve: ServeStatus, place: str = "") -> str:
    """What is wrong with a serve, with the next command to type; empty if nothing is known to be wrong. `place`: the
    options that lead to its Stoker.

    1 parked, or cannot load  2 sick  3 down although it should be up, or because it did not start  4 too slow
    """
    seen = _report(serve)
    if seen.parked is not None:  # 1
        return f"{serve.name} is parked: {seen.parked}"
    if serve.cannot_load is not None:
        again = f"stoker serves up {serve.replica_of or serve.name}{place}"
        return f"{serve.name} cannot load: {serve.cannot_load}; after fixing it: {again}"
    if seen.health == "sick":  # 2
        log = elsewhere(serve) or f"`stoker serves logs {serve.name}{place}` shows its log"
        return f"{serve.name} is sick: {seen.details(False)}; {log}"
    if serve.is_down and not serve.paused and (serve.keep_loaded or serve.state == "backoff"):  # 3
        why = f": {serve.last_error}" if serve.last_error else ""
        what = "should be up, but is not" if serve.keep_loaded else "did not start"
        return f"{serve.name} {what}{why}; `stoker serves up {serve.name}{place}` starts it"
    rate, least = serve.totals.tokens_per_second, serve.min_tokens_per_second
    if rate is not None and least is not None and rate < least:  # 4
        return (
            f"{serve.name} is slow: {rate:.1f} tokens/s in its last streamed reply, and `min_tokens_per_second` "
            f"is {least:g}; `stoker top{place}` shows what else runs"
        )
    return ""


def elsewhere(serve: ServeStatus) -> str:
    """Where its log is, as a sentence; empty: `stoker serves logs` shows it. The page has the same in problems.js."""
    if serve.driver == "systemd":
        return "its log is in the journal of its unit"
    return "its log is where it runs" if serve.driver in ("external", "box") else ""


def _status(config: str | None, state: str | None) -> tuple[dict[str, Any], StatusAnswer]:
    """Raises NotRunning."""
    try:
        with find_running(config, state).control() as control:
            return control.read_status()
    except NotRunning as error:
        raise NotRunning(f"no serve can be checked: {error.message}") from error


def _summary(serves: list[ServeStatus]) -> str:
    """How many running serves are verified, and which are unknown. Unknown is neither healthy nor an alarm."""
    up = [serve for serve in serves if serve.state in _IS_UP]
    unknown = [serve for serve in up if _report(serve).health != "verified"]
    text = f"{len(up) - len(unknown)} of {counted(len(up), 'running serve')} verified, nothing is wrong"
    for serve in unknown:
        text += f"\n{serve.name} is unknown: {_report(serve).details(None) or 'not checked yet'}"
    return text


def _show(serves: list[ServeStatus], place: str) -> None:
    if not serves:
        terminal.say(f"no serves are configured; add one to the configuration, then `stoker reload{place}`")
        return
    now = time.time()
    rows = [_row(serve, _report(serve), now, place) for serve in serves]
    terminal.table(("SERVE", "STATE", "HEALTH", "VERIFIED", "RESTARTS", "FOUND"), rows, right=("VERIFIED", "RESTARTS"))


def _row(serve: ServeStatus, report: WatchdogReport, now: float, place: str) -> tuple[str, ...]:
    is_up = serve.state in _IS_UP
    return (
        serve.name,
        serve.shown_state,
        "parked" if report.parked else report.health if is_up else figures.UNKNOWN,
        _ago(report.verified_at, now),
        str(report.restarts),
        problem_of(serve, place) or (report.details(None) if is_up else ""),
    )


def _report(serve: ServeStatus) -> WatchdogReport:
    from stoker.cli.console.answers import WatchdogReport

    return serve.watchdog or WatchdogReport()


def _ago(at: float | None, now: float) -> str:
    return figures.UNKNOWN if at is None else f"{figures.seconds(max(0.0, now - at))} ago"
