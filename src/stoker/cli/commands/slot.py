"""`stoker slot`: which slot holds what, and switching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import find_installation, find_running

if TYPE_CHECKING:
    from stoker.cli.console.answers import BoxStatus, ServeStatus, SlotStatus

app = typer.Typer(cls=CommandsWithHints, help="Slots: devices, and the serves that share them.", no_args_is_help=True)
options.accept_config(app)


@app.command("list")
def list_(config: options.Config = None, state: options.State = None, json: options.Json = False) -> None:
    """List slots with their devices and residents, and the serves that share them: what each is for, and its status."""
    with find_running(config, state).control() as control:
        document, status = control.read_status()
    if json:
        terminal.emit(document.get("slots", []))
        return
    if not status.slots:
        terminal.say("there are no slots: no serve shares its device")
        return
    columns = {
        "SLOT": [slot.name for slot in status.slots],
        "DEVICES": [_devices(slot) for slot in status.slots],
        "ROOM": [_room(slot) for slot in status.slots],
        "RESIDENT": [", ".join(slot.resident) or "empty" for slot in status.slots],
    }
    if any(slot.idle_serve for slot in status.slots):
        columns["IDLE SERVE"] = [_idle_serve(slot) for slot in status.slots]
    if any(slot.evict_costs for slot in status.slots):
        columns["EVICT COSTS"] = [_evict_costs(slot) for slot in status.slots]
    if any(slot.yields_to or slot.yields_above is not None for slot in status.slots):
        columns["YIELDS TO"] = [_yields_to(slot) for slot in status.slots]
    terminal.table(tuple(columns), list(zip(*columns.values(), strict=True)))
    _say_pauses(status.slots, options.same_place(config, state))
    for box in status.boxes:
        terminal.say(f"\n{_box(box)}")
    serves = sorted((one for one in status.serves if one.slot is not None), key=lambda one: one.slot or "")
    if serves:
        terminal.say()
        terminal.table(_PROFILE, [_profile(serve) for serve in serves], right=("CONTEXT",))
    for serve in serves:
        if serve.watchdog and serve.watchdog.health == "sick":
            terminal.say(f"\n{serve.name} is sick: {serve.watchdog.details(False)}")


_PROFILE = ("SERVE", "SLOT", "STATE", "STATUS", "MODALITIES", "CONTEXT", "PURPOSE")


def _profile(serve: ServeStatus) -> tuple[str, ...]:
    context = serve.context if serve.context is not None else serve.facts.get("n_ctx")
    return (
        serve.name,
        serve.slot or "-",
        serve.shown_state,
        f"{serve.status}-{serve.reason}" if serve.reason else serve.status,
        ", ".join(serve.modalities) or "-",
        figures.number(context if isinstance(context, int) else None),
        serve.purpose or "-",
    )


def _box(box: BoxStatus) -> str:
    """`box box2 at http://box2:8000: awake, Stoker 0.1.0; loaded there: gpu0 big, other`."""
    words = [box.state, *([f"Stoker {box.version}"] if box.version else [])]
    if box.state == "unknown":
        words = ["not asked yet"]
    text = f"box {box.name} at {box.url}: {', '.join(words)}"
    if box.problem:
        return f"{text}: {box.problem}"
    loaded = [f"{slot} {', '.join(names)}" for slot, names in box.slots.items() if names]
    return f"{text}; loaded there: {'; '.join(loaded)}" if loaded else text


def _devices(slot: SlotStatus) -> str:
    """`0, 1` of this machine, or `lab: 2 GPUs, box=alpha` in a cluster, or `box2's`."""
    if slot.box is not None:
        return f"{slot.box}'s"
    if slot.cluster is None:
        return ", ".join(slot.devices) or "-"
    gpus = figures.counted(slot.gpus or 0, "GPU")
    return ", ".join([f"{slot.cluster}: {gpus}", *(f"{key}={value}" for key, value in sorted(slot.node.items()))])


def _idle_serve(slot: SlotStatus) -> str:
    return "-" if slot.idle_serve is None else f"{slot.idle_serve} after {figures.seconds(slot.idle_serve_after)}"


def _evict_costs(slot: SlotStatus) -> str:
    return ", ".join(f"{serve} {cost:g}" for serve, cost in slot.evict_costs.items()) or "-"


def _yields_to(slot: SlotStatus) -> str:
    above = [] if slot.yields_above is None else [f"more than {figures.size(slot.yields_above)}"]
    return ", ".join([*slot.yields_to, *above]) or "-"


def _say_pauses(slots: list[SlotStatus], place: str) -> None:
    for slot in slots:
        if slot.paused:
            end = f"; `stoker resume {slot.name}{place}` ends that" if "operator" in slot.paused_by else ""
            terminal.say(f"\nslot {slot.name} is paused: {slot.paused}{end}")


def _room(slot: SlotStatus) -> str:
    """What may be loaded at the same time: `24.0 GiB, a+c or b+c`."""
    if slot.box is not None:
        return f"as {slot.box} decides"
    sets = " or ".join("+".join(group) for group in slot.together)
    size = figures.size(slot.memory) if slot.memory is not None else ""
    return ", ".join(filter(None, (size, sets))) or "one at a time"


@app.command()
def status(
    slot: Annotated[
        str | None,
        typer.Argument(metavar="[SLOT]", help="One slot. Default: all.", autocompletion=options.slot_names),
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Show the residents of each slot, the phase of a swap, and how many requests wait."""
    with find_running(config, state).control() as control:
        document, status = control.read_status()
    known = [s.name for s in status.slots]
    if slot is not None and slot not in known:
        raise UsageError(f"there is no slot '{slot}'; known slots: {', '.join(known) or 'none'}")
    if json:
        terminal.emit([s for s in document.get("slots", []) if slot in (None, s["name"])])
        return
    rows = []
    has_idle_serve = any(one.idle_serve for one in status.slots if slot in (None, one.name))
    for one in status.slots:
        if slot not in (None, one.name):
            continue
        swap = "none"
        if one.swap is not None:
            swap = f"{one.swap.phase} -> {one.swap.target or 'nothing'}, {figures.seconds(one.swap.elapsed)}"
            if one.swap.expected:
                swap += f" of about {figures.seconds(one.swap.expected)}"
        idle = (_idle_serve(one),) if has_idle_serve else ()
        rows.append((one.name, ", ".join(one.resident) or "empty", swap, str(one.waiting), str(one.swaps), *idle))
    header = ("SLOT", "RESIDENT", "SWAP", "WAITING", "SWAPS SO FAR", *(("IDLE SERVE",) if has_idle_serve else ()))
    terminal.table(header, rows, right=("WAITING", "SWAPS SO FAR"))
    _say_pauses([one for one in status.slots if slot in (None, one.name)], options.same_place(config, state))


@app.command()
def switch(
    serve: options.ServeName,
    config: options.Config = None,
    state: options.State = None,
    force: options.Force = False,
    drain_timeout: options.DrainTimeout = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Make SERVE the resident of its slot. Returns when it is ready, or when the previous resident is back."""
    from stoker.cli.commands import serve_actions

    serve_actions.load(find_installation(config, state), serve, force, drain_timeout, dry_run, json)
