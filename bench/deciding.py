"""What choosing a tier costs: `python -m bench.deciding [--quick] [--json FILE]`.

CPU time of the three parts of a decision, the least of several rounds: `outline` reads the body, `classify` finds the
class, `plan` ranks three tiers. Requests of 2 KB and of 200 KB, in the forms that agents and people send. What names a
model only asks whether it does. A system prompt counts as seen before. Nothing is sent. Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import machine
from bench.figures import table
from stoker.domain.dialect import Dialect
from stoker.domain.routing import AUTO, RouterSettings
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Driver, Serve, Slot
from stoker.domain.serve_phase import ServePhase
from stoker.domain.task import CLASSES
from stoker.domain.tier import Cost, ProfileRow, Tier, Verdict
from stoker.request.decide.dialects import dialect_for
from stoker.request.lease.preview import Residency
from stoker.request.lease.state import ServeState, SlotState
from stoker_auto.routing.router import RoutingConstraints, TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_content.outline import outline

SMALL, LARGE = 2 * 1024, 200 * 1024
"""Bytes of a body."""
GOALS = {SMALL: 100.0, LARGE: 1000.0}
"""Microseconds of CPU that a decision may cost."""
NAMED = 1.0
"""Microseconds that it may cost to see that a request names a model."""

PROSE = (
    "We went over the report on Tuesday, and most of us thought that the numbers were a little off: the trains ran "
    "late, the weather did not help, and nobody had told the people in the depot (there are nine of them) what to do. "
)
CODE = (
    "def total(rows: list[Row]) -> float:\n    found = []\n    for row in rows:\n"
    '        if row.price > 0 and row.kind != "gift":\n            found.append(row.price * row.count)\n'
    "    return sum(found)\n\n"
)
LOG = '2026-11-21 10:14:02\tWARN\t"depot"\\queue\t{"left": 9}\n'
OUTPUT = "src/depot/plan.py:41: in total\n    return sum(found)\nE   TypeError: unsupported operand\n"
STANDING = "You work in a repository. Read before you write, and run the tests. " * 30
TOOL = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}

Turns = list[dict[str, Any]]


class Case(NamedTuple):
    name: str
    size: int
    dialect: Dialect
    body: bytes


class Timed(NamedTuple):
    """Microseconds of CPU."""

    case: Case
    task: str
    outline: float
    classify: float
    plan: float

    @property
    def total(self) -> float:
        return self.outline + self.classify + self.plan

    @property
    def is_reached(self) -> bool:
        return self.total < GOALS[self.case.size]


# -- requests ----------------------------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Every request that is measured, each within 5 % of its size."""
    chat, messages = Dialect.CHAT, Dialect.MESSAGES
    return [
        Case("prose", SMALL, chat, _grown(SMALL, _prose)),
        Case("prose with accents", SMALL, chat, _grown(SMALL, _accented)),
        Case("code", SMALL, chat, _grown(SMALL, _code)),
        Case("code in a fence", SMALL, chat, _grown(SMALL, _fenced)),
        Case("an agent's turn, with tools", SMALL, chat, _grown(SMALL, _agent)),
        Case("long history", LARGE, chat, _grown(LARGE, _history)),
        Case("one pasted log", LARGE, chat, _grown(LARGE, _pasted)),
        Case("an agent's turn, with tools", LARGE, chat, _grown(LARGE, _agent)),
        Case("an agent's results", LARGE, messages, _grown(LARGE, _results)),
    ]


def _grown(size: int, of: Callable[[int], dict[str, Any]]) -> bytes:
    """The request with as much of its material as fits `size`."""
    low, high = 1, size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(_encoded(of(middle))) <= size else (low, middle)
    return _encoded(of(low))


def _encoded(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"model": AUTO, "stream": True, **body})


def _user(text: str) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": "You are helpful and brief."}, {"role": "user", "content": text}]
    }


def _prose(length: int) -> dict[str, Any]:
    return _user(_filled(PROSE, length) + "\nWhat do you make of it?")


def _accented(length: int) -> dict[str, Any]:
    return _user(_filled(PROSE.replace("depot", "d\u00e9p\u00f4t"), length) + "\nWhat do you make of it?")


def _code(length: int) -> dict[str, Any]:
    return _user("Why does this give the wrong total?\n\n" + _filled(CODE, length))


def _fenced(length: int) -> dict[str, Any]:
    return _user(f"Fix the rounding in this function:\n```python\n{_filled(CODE, length)}\n```\nKeep its name.")


def _pasted(length: int) -> dict[str, Any]:
    return _user(f"What went wrong here?\n{_filled(LOG, length)}")


def _history(length: int) -> dict[str, Any]:
    turns: Turns = [{"role": "system", "content": STANDING}]
    for at in range(0, length, 800):
        turns.append({"role": "user", "content": _filled(PROSE, min(400, length - at))})
        turns.append({"role": "assistant", "content": _filled(PROSE, max(0, min(400, length - at - 400)))})
    return {"messages": [*turns, {"role": "user", "content": "And what of the depot?"}]}


def _agent(length: int) -> dict[str, Any]:
    """Calls and what they brought since the user spoke, of at most 4 KB each."""
    turns: Turns = [{"role": "system", "content": _filled(STANDING, length // 4)}]
    turns.append({"role": "user", "content": "Run the tests again and make them pass."})
    for at in range(0, length, 4000):
        function = {"name": "read_file", "arguments": '{"path":"src/depot/plan.py"}'}
        call = {"id": f"call_{at}", "type": "function", "function": function}
        turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
        turns.append({"role": "tool", "tool_call_id": f"call_{at}", "content": _filled(OUTPUT, min(4000, length - at))})
    return {"messages": turns, "tools": [{"type": "function", "function": TOOL}] * 3}


def _results(length: int) -> dict[str, Any]:
    """As a harness speaks Messages: results are the user's turns, with a reminder beside the first words."""
    reminder = {"type": "text", "text": "<system-reminder>The folder is clean.</system-reminder>"}
    turns: Turns = [
        {"role": "user", "content": [reminder, {"type": "text", "text": "Rename total to amount in every module."}]}
    ]
    for at in range(0, length, 4000):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read_file", "input": {"path": "src/depot/plan.py"}}
        inner = [{"type": "text", "text": _filled(OUTPUT, min(4000, length - at))}]
        turns.append({"role": "assistant", "content": [{"type": "text", "text": "I read on."}, call]})
        turns.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": inner}]}
        )
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    return {"max_tokens": 4096, "system": [{"type": "text", "text": STANDING}], "messages": turns, "tools": [tool] * 3}


def _filled(text: str, length: int) -> str:
    return (text * (length // len(text) + 1))[:length]


# -- what they are put to ----------------------------------------------------------------------------------------------


def routing() -> TierRouter:
    """Three tiers: one that runs and is allowed, one that would have to be loaded, and a cloud."""
    slot_state = SlotState(Slot("gpu"))
    small, large = (ServeState(Serve(name, slot="gpu"), slot_state) for name in ("small", "large"))
    cloud = ServeState(Serve("cloud", driver=Driver.EXTERNAL), SlotState(Slot("cloud")))
    states = {state.serve.name: state for state in (small, large, cloud)}
    slot_state.serves += (small, large)
    cloud.slot_state.serves.append(cloud)
    small.phase = cloud.phase = ServePhase.READY
    tiers = (
        Tier("small", "small"),
        Tier("large", "large"),
        Tier("cloud", "cloud", cloud=True, cost=Cost(3.0, 15.0)),
    )
    rows = {
        (tier, name): ProfileRow(tier, name, f"{tier}-1", "x", 40, 39, Verdict.ALLOW, latency=1.0)
        for tier in ("small", "large")
        for name in CLASSES
    }
    tier_quality = TierQuality(rows)
    tier_quality.on_configured({"large": Fingerprint("large-1", "x")})
    tier_quality.on_identified("small", Fingerprint("small-1", "x"))
    serves = [state.serve for state in states.values()]
    return TierRouter(RouterSettings(tiers), serves, tier_quality, Residency(states), time.monotonic)


def measure(case: Case, tiers: TierRouter, times: int, rounds: int) -> Timed:
    seen, declared = outline(case.dialect, case.body)
    task = tiers.classes.classify_declared(seen, AUTO, declared)

    def speaks(serve: Serve) -> bool:
        return bool(dialect_for(serve, case.dialect, "/v1/chat/completions"))

    constraints = RoutingConstraints(speaks=speaks)
    parts: tuple[Callable[[], object], ...] = (
        lambda: outline(case.dialect, case.body),
        lambda: tiers.classes.classify_declared(seen, AUTO, declared),
        lambda: tiers.plan(task, seen, constraints),
    )
    return Timed(case, task.name, *(microseconds(part, times, rounds) for part in parts))


def microseconds(work: Callable[[], object], times: int, rounds: int) -> float:
    """CPU time of one call: the least of the rounds, of `times` calls each."""
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time_ns()
        for _ in range(times):
            work()
        least = min(least, (time.process_time_ns() - began) / times / 1000)
    return least


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.deciding", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds: checks the bench, its figures are noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    times, rounds = (5, 2) if found.quick else (10, 300)
    facts = machine.facts()
    sys.stdout.write(machine.headline(facts) + "\n")
    if warning := machine.warning(facts):
        sys.stdout.write(warning + "\n")
    tiers = routing()
    seen = [measure(case, tiers, times, rounds) for case in cases()]
    named = microseconds(lambda: tiers.classes.task_name("qwen3-coder"), 50 * times, rounds)
    sys.stdout.write(shown(seen, named) + "\n")
    if found.json is not None:
        raw = {"machine": facts, "decisions": [_raw(one) for one in seen], "named": named}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    return 0 if all(one.is_reached for one in seen) and named < NAMED else 1


def shown(seen: Sequence[Timed], named: float) -> str:
    """A table in microseconds, and what a request that names a model pays."""
    rows = [
        [f"{one.case.size // 1024} KB, {one.case.name}", one.task, f"{one.outline:.1f}", f"{one.classify:.1f}",
         f"{one.plan:.1f}", f"{one.total:.1f}", f"{GOALS[one.case.size]:.0f}", _verdict(one.is_reached)]
        for one in seen
    ]  # fmt: skip
    head = ["request", "class", "outline us", "classify us", "plan us", "sum us", "goal us", ""]
    return f"{table(head, rows)}\nnames a model: {named:.2f} us, goal {NAMED:.0f} us: {_verdict(named < NAMED)}"


def _verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "MISSED"


def _raw(one: Timed) -> dict[str, object]:
    return {
        "request": one.case.name,
        "bytes": len(one.case.body),
        "dialect": one.case.dialect.value,
        "class": one.task,
        "microseconds": {"outline": one.outline, "classify": one.classify, "plan": one.plan, "sum": one.total},
        "goal": GOALS[one.case.size],
        "reached": one.is_reached,
    }


if __name__ == "__main__":
    raise SystemExit(main())
