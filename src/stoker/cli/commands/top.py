"""`stoker top`: the live view. Each frame is a pure function of two /status documents."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import find_installation
from stoker.domain.printable import one_line

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from stoker.cli.console.answers import (
        DeviceStatus,
        RecentEvent,
        ServeStatus,
        SessionStatus,
        SlotStatus,
        StatusAnswer,
    )
    from stoker.cli.console.control import Control, ServerEvent

EVENTS = 8
SESSIONS = 8
RECENT = 600.0
"""Seconds. Sessions without an answer for longer are not shown."""
NARROW = 110
"""Columns of a terminal below which what matters least is left out."""
_DISPENSABLE = ("WHERE", "SLOT", "QUEUED", "LOADS IN")
MIN_INTERVAL = 0.2


def top(
    config: options.Config = None,
    state: options.State = None,
    interval: Annotated[
        str, typer.Option("--interval", "-n", metavar="TIME", help='Time between two updates ("1s").')
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print once and exit. Default without a terminal.")] = False,
    json: options.Json = False,
) -> None:
    """Watch slots, serves, memory, requests, sessions and events. Ctrl-C ends it."""
    seconds = options.duration(interval, "--interval") or 0.0
    if seconds < MIN_INTERVAL:
        raise UsageError(f"--interval {interval}: at least {figures.seconds(MIN_INTERVAL)}")
    installation = find_installation(config, state)
    with installation.control() as control:
        if json:
            terminal.emit(control.document("/status"))
            return
        if once or not terminal.is_live():
            out = terminal.console()
            out.print(frame(control.status(), None, 0.0, time.time(), out.width))
            return
        try:
            _watch(control, seconds)
        except KeyboardInterrupt:
            return


def _watch(control: Control, interval: float) -> None:
    """A new frame when something changes, at most one every `interval` seconds."""
    from rich.live import Live
    from rich.text import Text

    from stoker.cli.console.live_events import live_events

    before, looked = control.status(), time.monotonic()
    out = terminal.console()
    with Live(frame(before, None, 0.0, time.time(), out.width), console=out, screen=True) as live:

        def waits(why: str) -> None:
            live.update(Text(f"stoker: {why}; waiting for it"))

        for now in statuses(live_events(control, "status", waits)):
            moment = time.monotonic()
            if moment - looked >= interval:
                live.update(frame(now, before, moment - looked, time.time(), out.width))
                before, looked = now, moment


def statuses(events: Iterable[ServerEvent]) -> Iterator[StatusAnswer]:
    """The status after each event of its topic."""
    from stoker.cli.console.answers import StatusAnswer
    from stoker.cli.console.control import parse
    from stoker.domain.merge_patch import apply_patch

    document: dict[str, Any] = {}
    for event in events:
        document = event.data if event.kind == "snapshot" else apply_patch(document, event.data["patch"])
        yield parse(document, StatusAnswer)


def frame(now: StatusAnswer, before: StatusAnswer | None, elapsed: float, wall: float, width: int) -> Group:
    """What is on a screen of `width` columns. Rates are between `before` and `now`, `elapsed` seconds apart; without
    `before` they are unknown.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[Text | Table] = [_head(now, wall), Text()]
    if now.slots:
        parts.append(_slots(now))
        parts += [
            Text(f"slot {slot.name} is paused: {one_line(slot.paused)}", style="yellow")
            for slot in now.slots
            if slot.paused
        ]
        parts.append(Text())
    if now.devices:
        parts += [_devices(now), Text()]
    parts += [_serves(now, before, elapsed, wall, width), Text()]
    recent = [one for one in now.sessions if wall - (one.ended_at or wall) < RECENT][:SESSIONS]
    if recent:
        parts += [_sessions(recent, wall), Text()]
    parts += [_event(event) for event in now.events[:EVENTS]]
    return Group(*parts)


def _head(now: StatusAnswer, wall: float) -> Text:
    from rich.text import Text

    text = Text(f"stoker {now.version}", style="bold")
    text.append(f"  {now.frontdoor.base_url}", style="not bold")
    up = wall - now.started_at if now.started_at else None
    text.append(f"  up {figures.seconds(up)}  {now.frontdoor.in_flight} in flight", style="not bold")
    if now.draining:
        text.append("  draining: no new requests are admitted", style="yellow")
    if now.capture:
        text.append("  capture is on: content of requests is kept in memory", style="yellow")
    return text


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return drawn


def _slots(now: StatusAnswer) -> Table:
    drawn = _table("SLOT", "RESIDENT", "MEMORY", "SWAP", "WAITING", "SWAPS", right=("WAITING", "SWAPS"))
    for slot in now.slots:
        drawn.add_row(
            slot.name, ", ".join(slot.resident) or "empty", _room(slot), _swap(slot), str(slot.waiting), str(slot.swaps)
        )
    return drawn


def _sessions(sessions: Iterable[SessionStatus], wall: float) -> Table:
    numbers = ("TURNS", "TOKENS", "WAITED", "AGE", "ANSWERED")
    drawn = _table("SESSION", "KEY", "SERVE", *numbers, "THEN", right=numbers)
    for one in sessions:
        ended = figures.UNKNOWN if one.ended_at is None else f"{figures.seconds(max(wall - one.ended_at, 0.0))} ago"
        drawn.add_row(
            f"{one.id[:8]} of {one.parent[:8]}" if one.parent else one.id[:8],
            one_line(one.key or ""),
            one_line(one.serve),
            str(one.turns),
            str(one.tokens),
            figures.seconds(one.waited),
            figures.UNKNOWN if one.began_at is None else figures.seconds(max(wall - one.began_at, 0.0)),
            ended,
            "calls a tool" if one.in_loop else "",
        )
    return drawn


def _devices(now: StatusAnswer) -> Table:
    numbers = ("USE", "MEMORY", "°C", "WATTS", "MHZ")
    drawn = _table("DEVICE", *numbers, "SLOWED BY", "", right=numbers)
    for device in now.devices:
        used = device.memory_used
        of = f"{figures.size(used)} of {figures.size(device.memory)}"
        drawn.add_row(
            device.name,
            f"{device.use:.0%}" if device.use is not None else figures.UNKNOWN,
            of if used is not None and device.memory is not None else figures.size(used),
            *(figures.UNKNOWN if known is None else str(known) for known in (device.temperature, device.watts)),
            figures.UNKNOWN if device.core_mhz is None else str(device.core_mhz),
            _slowed(device),
            "suspended" if device.suspended else one_line(device.title),
        )
    return drawn


def _slowed(device: DeviceStatus) -> Text:
    from rich.text import Text

    if device.throttled is None:
        return Text(figures.UNKNOWN)
    is_alarming = not {"heat", "hardware"}.isdisjoint(device.throttled)
    return Text(one_line(", ".join(device.throttled)) or "nothing", style="red" if is_alarming else "")


def _room(slot: SlotStatus) -> str:
    if slot.memory is None and slot.memory_used is None:
        return figures.UNKNOWN
    if slot.memory is None:
        return figures.size(slot.memory_used)
    return f"{figures.size(slot.memory_used)} of {figures.size(slot.memory)}"


def _swap(slot: SlotStatus) -> str:
    swap = slot.swap
    if swap is None:
        return "paused" if slot.paused else figures.UNKNOWN
    expected = f" of about {figures.seconds(swap.expected)}" if swap.expected and swap.phase != "draining" else ""
    return f"{swap.phase} {swap.target or 'nothing'}, {figures.seconds(swap.elapsed)}{expected}"


def _serves(now: StatusAnswer, before: StatusAnswer | None, elapsed: float, wall: float, width: int) -> Table:
    numbers = ("ACTIVE", "QUEUED", "TOK/S", "MEMORY", "UP", "LOADS IN")
    columns = ("SERVE", "STATE", "HEALTH", "WHERE", "SLOT", *numbers)
    shown = [column for column in columns if width >= NARROW or column not in _DISPENSABLE]
    drawn = _table(*shown, right=numbers)
    for serve in now.serves:
        earlier = before.serve(serve.name) if before is not None else None
        loads = figures.seconds(serve.load_seconds)
        cells: tuple[Text | str, ...] = (
            serve.name,
            terminal.styled(serve.shown_state),
            _health(serve, wall),
            _where(serve),
            serve.slot or figures.UNKNOWN,
            f"{serve.in_flight}/{serve.max_active}",
            str(serve.queued),
            _rate(serve, earlier, elapsed),
            _held(serve),
            figures.seconds(serve.uptime),
            f"about {loads}" if serve.swap_seconds_assumed and serve.load_seconds is not None else loads,
        )
        drawn.add_row(*(cell for column, cell in zip(columns, cells, strict=True) if column in shown))
    return drawn


def _where(serve: ServeStatus) -> str:
    """And, where it is warm because it is expected next, why."""
    if serve.temperature is None:
        return figures.UNKNOWN
    return f"{serve.temperature}, {serve.expected}" if serve.expected else serve.temperature


def _health(serve: ServeStatus, wall: float) -> Text:
    if serve.watchdog is None or serve.is_down:
        return terminal.styled(figures.UNKNOWN)
    text = terminal.styled(serve.watchdog.health)
    if serve.watchdog.verified_at is not None:
        text.append(f" {figures.seconds(max(0.0, wall - serve.watchdog.verified_at))} ago")
    return text


def _rate(serve: ServeStatus, earlier: ServeStatus | None, elapsed: float) -> str:
    """Tokens of the requests that ended meanwhile, per second."""
    if earlier is None or elapsed <= 0:
        return figures.UNKNOWN
    made = serve.totals.output_tokens - earlier.totals.output_tokens
    return f"{made / elapsed:.0f}" if made >= 0 else figures.UNKNOWN


def _held(serve: ServeStatus) -> str:
    if serve.measured is not None:
        return figures.size(serve.measured)
    return f"{figures.size(serve.memory)} declared" if serve.memory is not None else figures.UNKNOWN


def _event(event: RecentEvent) -> Text:
    text = terminal.styled(event.kind)
    text.pad_right(max(0, 10 - len(event.kind)))
    text.append(one_line(f" {event.serve}: {event.text}" if event.serve else f" {event.text}"))
    moment = figures.moment(event.at)[11:]
    line = terminal.styled(f"{moment}  ")
    line.append_text(text)
    return line
