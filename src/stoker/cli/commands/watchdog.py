"""`stoker watchdog`: is every serve that should be up there, and proved to be what it should be?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, NotRunning
from stoker.cli.console.installation import find_place

if TYPE_CHECKING:
    from stoker.cli.console.watched import Serve

_IS_UP = ("ready", "draining", "held")
_IS_DOWN = ("stopped", "backoff")


def watchdog(
    config: options.Config = None,
    state: options.State = None,
    once: Annotated[
        bool, typer.Option("--once", help="For a timer: say only what is wrong, and exit with 1 if anything is.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show what was proved of each serve, and when. With --once: check, for a timer."""
    from stoker.cli.console.watched import serves_of

    document = _status(config, state)
    serves = serves_of(document)
    problems = {serve.name: problem for serve in serves if (problem := problem_of(serve))}
    if json:
        told = [
            {"name": one.get("name"), "state": one.get("state"), **one.get("watchdog", {})}
            for one in document.get("serves", [])
        ]
        terminal.emit({"ok": not problems, "problems": problems, "serves": told})
    elif once:
        for problem in problems.values():
            terminal.say(problem)
        if not problems:
            terminal.say(_summary(serves))
    else:
        _show(serves)
    if once and problems:
        raise typer.Exit(FAILED)


def problem_of(serve: Serve) -> str:
    """A sentence with the next command; empty if it is verified, is not to be up, or nothing is known against it.

    1 parked  2 sick  3 down though it should be up, or because it does not start  4 slower than it should be
    """
    seen = serve.watchdog
    if seen.parked is not None:  # 1
        return f"{serve.name} is parked: {seen.parked}"
    if seen.health == "sick":  # 2
        return f"{serve.name} is sick: {seen.details(False)}; `stoker serves logs {serve.name}` shows what it says"
    if serve.state in _IS_DOWN and (serve.keep_loaded or serve.state == "backoff"):  # 3
        why = f": {serve.last_error}" if serve.last_error else ""
        what = "should be up and is not" if serve.keep_loaded else "did not start"
        return f"{serve.name} {what}{why}; `stoker serves up {serve.name}` starts it"
    rate, least = serve.totals.tokens_per_second, serve.min_tokens_per_second
    if rate is not None and least is not None and rate < least:  # 4
        return (
            f"{serve.name} is slow: {rate:.1f} tokens/s in its last streamed reply, at least {least:g} are wanted; "
            "`stoker top` shows what else is at work"
        )
    return ""


def _status(config: str | None, state: str | None) -> dict[str, Any]:
    """Raises NotRunning: without the service there is nothing to watch."""
    try:
        with find_place(config, state).control() as control:
            return control.document("/status")
    except NotRunning as error:
        raise NotRunning(f"the first step is to make sure that the service runs: {error.message}") from error


def _summary(serves: list[Serve]) -> str:
    """What is up, and what is not known of it: that is no alarm, and no proof either."""
    up = [serve for serve in serves if serve.state in _IS_UP]
    unknown = [serve for serve in up if serve.watchdog.health != "verified"]
    text = f"{len(up) - len(unknown)} of {len(up)} running serves are verified, nothing is wrong"
    for serve in unknown:
        text += f"\n{serve.name} is unknown: {serve.watchdog.details(None) or 'not looked at yet'}"
    return text


def _show(serves: list[Serve]) -> None:
    if not serves:
        terminal.say("no serves are configured; add one to the configuration, then `stoker reload`")
        return
    now = time.time()
    rows = [
        (
            serve.name,
            serve.state,
            "parked" if serve.watchdog.parked else serve.watchdog.health if serve.state in _IS_UP else figures.UNKNOWN,
            _ago(serve.watchdog.verified_at, now),
            str(serve.watchdog.restarts),
            problem_of(serve) or (serve.watchdog.details(None) if serve.state in _IS_UP else ""),
        )
        for serve in serves
    ]
    terminal.table(("SERVE", "STATE", "HEALTH", "VERIFIED", "RESTARTS", "FOUND"), rows, right=("VERIFIED", "RESTARTS"))


def _ago(at: float | None, now: float) -> str:
    return figures.UNKNOWN if at is None else f"{figures.seconds(max(0.0, now - at))} ago"
