"""Figures and tables from the rounds. Pure.

overhead of a start  Stoker's request to first token - the engine's own spawn to first token, in the same round
overhead of a swap   the same, the engine's own time from SIGTERM to gone taken off too
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.figures import Spread, nearest_rank, show, show_spread, spread, table
from bench.swap.alternate import Alternation
from bench.swap.conversation import Case
from bench.swap.phases import Phases, Round

MAX_OVERHEAD = 40.0
"""Milliseconds beyond the engine's own stop, load and first token."""
FEWER_SWAPS = 5.0
FASTER = 3.0


class State(NamedTuple):
    """One way to a first token. `own` is the engine's own part; both in milliseconds."""

    name: str
    total: Callable[[Round], float | None]
    own: Callable[[Round], float | None]
    bounded: bool = True
    """Whether the bound on the overhead is about it."""


def _cold_own(one: Round) -> float | None:
    return None if one.cold_own is None else one.cold_own.first_token * 1e3


STATES = (
    State("cold", lambda one: None if one.cold is None else one.cold * 1e3, _cold_own),
    State("page-cached", lambda one: one.cached * 1e3, lambda one: one.cached_own.first_token * 1e3),
    State(
        "swap (the other is stopped first)",
        lambda one: one.swapped * 1e3,
        lambda one: (one.cached_own.stop + one.cached_own.first_token) * 1e3,
    ),
    State("loaded", lambda one: one.loaded * 1e3, lambda one: one.loaded_own * 1e3, bounded=False),
)


def overhead(state: State, rounds: Sequence[Round]) -> Spread | None:
    """Milliseconds, paired per round."""
    pairs = [(state.total(one), state.own(one)) for one in rounds]
    return spread([total - own for total, own in pairs if total is not None and own is not None])


def _over(measure: Callable[[Round], float | None], rounds: Sequence[Round]) -> Spread | None:
    return spread([value for one in rounds if (value := measure(one)) is not None])


def render_phases(found: Phases) -> str:
    """Time to the first token by state, then what Stoker reports about the phases of a start and a switch."""
    rows = [
        (
            state.name,
            show_spread(_over(state.total, found.rounds)),
            show_spread(_over(state.own, found.rounds)),
            show_spread(overhead(state, found.rounds), 2 if state.name == "loaded" else 1),
        )
        for state in STATES
        if _over(state.total, found.rounds) is not None
    ]
    head = ("to first token", "Stoker ms", "engine alone ms", "overhead ms")
    parts = [f"### {found.title}, {len(found.rounds)} round(s)", table(head, rows), _own_line(found.rounds)]
    kept = [one.still_cached for one in found.rounds if one.cold is not None]
    if kept and (unknown := kept.count(None)) == len(kept) and unknown:
        parts.append("cold: whether the kernel dropped the weights could not be told on this file system")
    elif kept:
        parts.append(
            f"cold: at most {max(share for share in kept if share is not None):.0%} of the weights stayed cached"
        )
    return "\n\n".join((*parts, *_phase_lines(found.rounds)))


def _own_line(rounds: Sequence[Round]) -> str:
    healthy = spread([one.cached_own.healthy * 1e3 for one in rounds])
    stop = spread([one.cached_own.stop * 1e3 for one in rounds])
    return f"engine alone: spawn to health 200 {show_spread(healthy)} ms, SIGTERM to gone {show_spread(stop)} ms"


def _phase_lines(rounds: Sequence[Round]) -> list[str]:
    """What the fleet and /admin/switch report, medians."""
    lines = []
    facts = {name for one in rounds for name, value in one.facts.items() if name.endswith("_s") and _is_number(value)}
    if facts:
        seen = {name: spread([float(one.facts[name]) * 1e3 for one in rounds if name in one.facts]) for name in facts}
        parts = [f"{name.removesuffix('_s')} {show(value.median)}" for name, value in seen.items() if value is not None]
        lines.append("fleet's own times for a start, ms since spawn: " + ", ".join(sorted(parts)))
    switches = [one.switch for one in rounds if one.switch is not None]
    if switches:
        names = list(switches[0]["phases"])
        parts = []
        for name in names:
            value = spread(
                [float(one["phases"][name]) * 1e3 for one in switches if _is_number(one["phases"].get(name))]
            )
            parts.append(f"{name} {show_spread(value)}")
        whole = spread([float(one["seconds"]) * 1e3 for one in switches])
        lines.append(f"/admin/switch: {show_spread(whole)} ms = " + ", ".join(parts))
    return lines


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Saving(NamedTuple):
    """What hysteresis saves: the run without it over the run with it."""

    swaps: float | None
    time: float | None


def saving(without: Alternation, with_it: Alternation) -> Saving | None:
    """Per request, so that runs of different length compare. None if either had failures."""
    if without.failures or with_it.failures or not with_it.total:
        return None
    swaps = without.swaps / without.requests / (with_it.swaps / with_it.requests) if with_it.swaps else None
    return Saving(swaps, without.total / without.requests / (with_it.total / with_it.requests))


def render_alternations(found: Sequence[Alternation]) -> str:
    rows = [
        (
            one.title,
            "on" if one.hysteresis else "off",
            f"2 x {one.requests}",
            str(one.swaps),
            show(one.total),
            show(nearest_rank(one.waits, 0.5), 2),
            show(nearest_rank(one.waits, 0.99), 2),
            show(max(one.waits, default=None), 2),
            str(len(one.failures)),
        )
        for one in found
    ]
    head = ("engine", "hysteresis", "requests", "swaps", "total s", "wait p50 s", "p99 s", "longest s", "failed")
    return "### Two clients, two models, one slot\n\n" + table(head, rows)


def render_conversations(found: Sequence[Case]) -> str:
    """Time to the first token of the same turns, by whether conversations are kept."""
    rows = []
    for one in found:
        turns = one.rounds
        files = [turn.file for turn in turns if turn.file is not None]
        rows.append(
            (
                "yes" if one.kept else "no",
                _ms([turn.cold.first for turn in turns]),
                _ms([turn.loaded.first for turn in turns]),
                _ms([turn.back.first for turn in turns]),
                show_spread(spread([float(turn.back.read) for turn in turns]), 0),
                show_spread(spread([turn.stop * 1e3 for turn in turns])),
                show(sum(files) / len(files) / 1e6) if files else "-",
            )
        )
    turns_head = ("first turn ms", "next turn, loaded ms", "next turn, after a swap and back ms")
    head = ("kept", *turns_head, "tokens read after the swap", "stop ms", "file MB")
    prompts = spread([float(turn.back.prompt) for one in found for turn in one.rounds])
    return f"### A conversation of {show_spread(prompts, 0)} tokens, {found[0].title}\n\n" + table(head, rows)


def _ms(seconds: Sequence[float]) -> str:
    return show_spread(spread([value * 1e3 for value in seconds]))


class Verdict(NamedTuple):
    """One figure to reach."""

    what: str
    limit: str
    measured: str
    is_reached: bool


def verdicts(phases: Sequence[Phases], alternations: Sequence[Alternation]) -> list[Verdict]:
    """Overhead of every kind and state that the bound is about; swaps and time of the scripted alternation."""
    found = []
    for one in phases:
        for state in STATES:
            extra = overhead(state, one.rounds)
            if state.bounded and extra is not None:
                what = f"overhead, {one.kind}, {state.name}"
                found.append(Verdict(what, f"< {MAX_OVERHEAD:g} ms", show(extra.median), extra.median < MAX_OVERHEAD))
    scripted = [one for one in alternations if one.kind.startswith("scripted")]
    off = next((one for one in scripted if not one.hysteresis), None)
    on = next((one for one in scripted if one.hysteresis), None)
    saved = saving(off, on) if off and on else None
    if saved is not None:
        fewer, faster = saved
        found.append(
            Verdict("hysteresis: times fewer swaps", f">= {FEWER_SWAPS:g}", show(fewer), (fewer or 0) >= FEWER_SWAPS)
        )
        found.append(Verdict("hysteresis: times faster", f">= {FASTER:g}", show(faster), (faster or 0) >= FASTER))
    return found


def render_verdicts(seen: Sequence[Verdict]) -> str:
    """Empty if there is none."""
    rows = [(one.what, one.limit, one.measured, "reached" if one.is_reached else "MISSED") for one in seen]
    return table(("figure to reach", "bound", "measured", "result"), rows) if rows else ""
