"""The structural grade of a plan: is it one, for this task? Whether it is wise, nobody here can say. Pure.

steps      so many numbered steps as were asked for
numbered   1, 2, 3 and so on
distinct   no step twice
verbs      steps that have a verb of the plan's domain
mentions   what has to be named
order      what has to come before what
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from stoker.domain.answer import Answer
from stoker.measure.suites.check import Plan
from stoker.measure.suites.spoken import Grade, has, said

_STEP = re.compile(r" ?(?:#{1,6} *)?(?:\*\*|__)?(?:step +)?(\d{1,2})(?:[.):]|\*\*)+ *(.*)", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
ACTIONS = (
    "add", "adjust", "agree", "allow", "analyse", "analyze", "apply", "approve", "arrange", "ask", "assemble",
    "assess", "assign", "attach", "automate", "back", "bake", "book", "bring", "build", "buy", "call", "change",
    "check", "choose", "clean", "close", "collect", "combine", "compare", "complete", "configure", "confirm",
    "connect", "contact", "copy", "create", "cut", "decide", "declare", "define", "delete", "deliver", "deploy",
    "design", "determine", "develop", "disable", "discuss", "do", "document", "download", "draft", "drain", "draw",
    "dry", "enable", "end", "ensure", "establish", "estimate", "evaluate", "examine", "execute", "export", "fill",
    "finalise", "finalize", "find", "finish", "fix", "follow", "gather", "get", "give", "go", "grow", "hang", "hire",
    "hold", "identify", "implement", "import", "improve", "inform", "inspect", "install", "invite", "isolate",
    "join", "keep", "label", "lay", "learn", "leave", "let", "list", "load", "look", "make", "map", "mark",
    "measure", "meet", "merge", "mix", "monitor", "move", "name", "note", "notify", "obtain", "offer", "open",
    "order", "organise", "organize", "pack", "paint", "perform", "pick", "place", "plan", "plant", "practice",
    "practise", "prepare", "present", "prioritise", "prioritize", "print", "protect", "provide", "publish", "pull",
    "push", "put", "read", "rebuild", "record", "redirect", "reduce", "register", "release", "remove", "rename",
    "repair", "repeat", "replace", "report", "request", "research", "reserve", "restart", "restore", "review",
    "revise", "run", "save", "schedule", "scan", "search", "secure", "select", "sell", "send", "serve", "set", "sew",
    "share", "ship", "show", "sign", "sort", "start", "stop", "store", "study", "submit", "swap", "switch", "take",
    "talk", "tell", "test", "tidy", "train", "transfer", "try", "turn", "update", "upgrade", "upload", "use",
    "validate", "verify", "visit", "wait", "wash", "watch", "write",
)  # fmt: skip
"""What people do in plans, in the form without an ending."""


class Graded(NamedTuple):
    steps: int
    shares: Mapping[str, float]
    """By criterion, 0 to 1."""

    @property
    def passed(self) -> bool:
        return all(share == 1.0 for share in self.shares.values())

    @property
    def score(self) -> float:
        """The mean over the criteria."""
        return round(sum(self.shares.values()) / len(self.shares), 4)


def steps(text: str) -> list[tuple[int, str]]:
    """Number and text of each step. What stands below a step and is no step is part of it, indented numbers too."""
    found: list[tuple[int, list[str]]] = []
    for line in text.splitlines():
        match = _STEP.match(line)
        if match:
            found.append((int(match[1]), [match[2]]))
        elif found:
            found[-1][1].append(line)
    return [(number, "\n".join(lines).strip()) for number, lines in found]


def graded(check: Plan, text: str) -> Graded:
    """By every criterion; one that a check says nothing of is met. Without a step, none is."""
    found = steps(text)
    bodies = [body for _, body in found]
    verbs = forms(tuple(check.verbs) or ACTIONS)
    named = [any(has(text, wording) for wording in mention) for mention in check.mentions]
    kept = [_comes_before(bodies, *pair) for pair in check.order]
    shares = {
        "steps": float(check.least <= len(found) <= check.most),
        "numbered": float([number for number, _ in found] == list(range(1, len(found) + 1))),
        "distinct": _share([len({body.casefold() for body in bodies}) == len(bodies)]),
        "verbs": _share([not verbs.isdisjoint(_WORD.findall(body.casefold())) for body in bodies]),
        "mentions": _share(named),
        "order": _share(kept),
    }
    return Graded(len(found), shares if found else dict.fromkeys(shares, 0.0))


def plan(check: Plan, answer: Answer) -> Grade:
    found = graded(check, said(answer))
    missed = [name for name, share in found.shares.items() if share < 1.0]
    return Grade(found.passed, f"{found.steps} steps; misses {', '.join(missed)}" if missed else "")


def _share(kept: list[bool]) -> float:
    return round(sum(kept) / len(kept), 4) if kept else 1.0


def _comes_before(bodies: list[str], one: str, other: str) -> bool:
    """Both are there, and the one is named in an earlier step."""
    first = [next((at for at, body in enumerate(bodies) if has(body, word)), None) for word in (one, other)]
    return first[0] is not None and first[1] is not None and first[0] < first[1]


@lru_cache(maxsize=64)
def forms(verbs: tuple[str, ...]) -> frozenset[str]:
    """Each verb with its regular endings."""
    found: set[str] = set()
    for verb in verbs:
        stem = verb.removesuffix("e")
        doubled = stem + stem[-1:]
        ends = (verb, verb + "s", verb + "es", stem + "ed", stem + "ing", doubled + "ed", doubled + "ing")
        found.update(ends)
        if verb.endswith("y"):
            found.update((verb[:-1] + "ies", verb[:-1] + "ied"))
    return frozenset(found)
