"""`python -m bench.routing.human_turns --data DIR`: the risk of what people type into coding agents.

The sessions of `bench.routing.sessions` are replayed: at each labelled turn the body that an agent would send, with all
turns before it, the calls of tools and the end of what the agent wrote, goes through the outline and the classifier
that ship. `labels.jsonl` has two readings of each turn as hashes; bench/routing.md has the guide they follow.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.figures import table
from bench.routing import sessions
from bench.routing.public import fetched
from bench.routing.sessions import DEVELOPED_ON, HELD_OUT, REPOSITORIES, Session
from stoker.domain.dialect import Dialect
from stoker.domain.routing import RouterSettings
from stoker.domain.task import HIGH_RISK
from stoker_auto.routing.classes import TaskClasses
from stoker_content.outline import outline
from stoker_lab.statistics.stats import wilson

LABELS = Path(__file__).parent / "labels.jsonl"
MOST_CALLS = 40
"""Calls of tools that one replayed turn has at most."""
_TOOLS = [
    {"type": "function", "function": {"name": name, "description": said, "parameters": {"type": "object"}}}
    for name, said in (("read_file", "Read a file"), ("edit_file", "Edit a file"), ("bash", "Run a command"))
]
_NAMES = {"write": "edit_file", "shell": "bash", "read": "read_file", "other": "read_file"}


class Label(msgspec.Struct, frozen=True):
    repository: str
    turn: str
    first: bool
    second: bool

    @property
    def is_risky(self) -> bool:
        """Where the readings differ, the cautious one."""
        return self.first or self.second


class Seen(NamedTuple):
    repository: str
    is_risky: bool
    found: bool
    size: int
    """Bytes of the body."""


def body(session: Session, at: int) -> bytes:
    """What an agent sends after the turn `at`: chat, with tools that change files."""
    messages: list[dict[str, object]] = []
    for number, turn in enumerate(session.turns[: at + 1]):
        messages.append({"role": "user", "content": turn.text})
        if number == at:
            break
        calls = turn.calls[:MOST_CALLS]
        if calls:
            names = [f"c{number}_{place}" for place in range(len(calls))]
            made = [
                {"id": name, "type": "function",
                 "function": {"name": _NAMES[call.kind], "arguments": json.dumps({"path": call.path})}}
                for name, call in zip(names, calls, strict=True)
            ]  # fmt: skip
            messages.append({"role": "assistant", "content": None, "tool_calls": made})
            messages += [{"role": "tool", "tool_call_id": name, "content": "ok"} for name in names]
        messages.append({"role": "assistant", "content": turn.said or "ok"})
    return json.dumps({"model": "auto", "messages": messages, "tools": _TOOLS}).encode()


def is_risky(classes: TaskClasses, sent: bytes) -> bool:
    """Whether the tiers that may serve it have to be good enough at high-risk work."""
    seen = classes.with_tokens(outline(Dialect.CHAT, sent)[0], None)
    return any(name in HIGH_RISK for name in classes.required_for(classes.classify_declared(seen, "auto", None), seen))


def replay(found: Iterable[Session], labels: dict[str, Label]) -> list[Seen]:
    classes = TaskClasses(RouterSettings(()))
    left = dict(labels)
    seen = []
    for session in found:
        for at, turn in enumerate(session.turns):
            label = left.get(sessions.digest(turn.text))
            if label is not None and label.repository == session.repository:
                del left[label.turn]
                sent = body(session, at)
                seen.append(Seen(session.repository, label.is_risky, is_risky(classes, sent), len(sent)))
    return seen


def kappa(labels: Sequence[Label]) -> float:
    """Cohen's: the agreement of the two readings beyond chance."""
    n = len(labels)
    agreed = sum(one.first == one.second for one in labels) / n
    first, second = sum(one.first for one in labels) / n, sum(one.second for one in labels) / n
    chance = first * second + (1 - first) * (1 - second)
    return (agreed - chance) / (1 - chance)


def _rate(part: int, whole: int) -> str:
    if not whole:
        return "-"
    low, high = wilson(part, whole)
    return f"{100 * part / whole:.0f} % of {whole} ({100 * low:.0f} to {100 * high:.0f})"


def shown(name: str, seen: Sequence[Seen]) -> list[str]:
    risky = sum(one.is_risky for one in seen)
    found = sum(one.found for one in seen)
    both = sum(one.is_risky and one.found for one in seen)
    local = sum(one.size for one in seen if not one.found) / max(1, sum(one.size for one in seen))
    return [
        name,
        _rate(risky, len(seen)),
        _rate(found, len(seen)),
        _rate(both, found),
        _rate(both, risky),
        f"{100 * local:.0f} %",
    ]


HEAD = (
    "turns",
    "risky by the labels",
    "taken for risky",
    "of these rightly (precision)",
    "of the risky found (recall)",
    "of all bytes, not risky",
)
OPENING, CLOSING = "<!-- bench.routing.human_turns -->", "<!-- /bench.routing.human_turns -->"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.routing.human_turns", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="clones of the repositories")
    parser.add_argument("--fetch", action="store_true", help="clone what is missing")
    parser.add_argument("--part", choices=(DEVELOPED_ON, HELD_OUT), help="only this part")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table between the marks of this page")
    given = parser.parse_args(argv)
    labels = [msgspec.json.decode(line, type=Label) for line in LABELS.read_bytes().splitlines()]
    by_part: dict[str, list[Seen]] = {DEVELOPED_ON: [], HELD_OUT: []}
    missing, counted = [], Counter[str]()
    began = time.perf_counter()
    for repository, part in REPOSITORIES.items():
        wanted = {one.turn: one for one in labels if one.repository == repository}
        if not wanted or given.part not in (None, part):
            continue
        place = sessions.place_of(given.data, repository)
        if place is None and given.fetch:
            place = fetched(given.data, repository)
        if place is None:
            missing.append(repository)
            continue
        found = sessions.of_repository(place, repository)
        counted["sessions"] += len(found)
        counted["turns"] += sum(len(one.turns) for one in found)
        by_part[part] += replay(found, wanted)
    sys.stderr.write(f"{time.perf_counter() - began:.0f} s\n")
    text = "\n\n".join(
        [
            f"{counted['sessions']} sessions of {len(REPOSITORIES) - len(missing)} repositories, "
            f"{counted['turns']} turns; {len(labels)} of them labelled twice, kappa {kappa(labels):.2f}.",
            table(HEAD, [shown(name, seen) for name, seen in by_part.items() if seen]),
            *([f"Left out, no clone of them: {', '.join(missing)}."] if missing else []),
        ]
    )
    if given.page is not None:
        before, _, rest = given.page.read_text().partition(OPENING)
        given.page.write_text(f"{before}{OPENING}\n{text}\n{CLOSING}{rest.partition(CLOSING)[2]}")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
