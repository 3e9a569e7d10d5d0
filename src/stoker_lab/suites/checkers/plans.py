"""The structural grade of a plan. It does not judge whether the plan is wise. Pure.

steps      the requested number of steps
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
from stoker.domain.figures import counted
from stoker_lab.suites.check_kinds import PlanCheck
from stoker_lab.suites.checkers.plain_text import Grade, answer_text, has_phrase

_STEP = re.compile(r" ?(?:#{1,6} *)?(?:\*\*|__)?(?:step +)?(\d{1,2})(?:[.):]|\*\*)+ *(.*)", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
ACTIONS = (
    "accept", "acknowledge", "add", "address", "adjust", "advertise", "agree", "alert", "align", "allow", "analyse",
    "analyze", "answer", "apply", "approve", "archive", "arrange", "ask", "assemble", "assess", "assign", "attach",
    "audit", "automate", "back", "bake", "begin", "benchmark", "bill", "bind", "blow", "boil", "book", "boot",
    "brainstorm", "brake", "brief", "bring", "broadcast", "brush", "budget", "build", "bump", "buy", "calculate",
    "calibrate", "call", "cancel", "cap", "capture", "carry", "cater", "celebrate", "certify", "change", "charge",
    "check", "choose", "chop", "cite", "classify", "clean", "click", "climb", "close", "coach", "coat", "collect",
    "combine", "commit", "communicate", "compare", "compile", "complete", "comply", "compost", "compute", "conclude",
    "configure", "confirm", "connect", "consolidate", "consult", "contact", "contain", "continue", "cook", "cool",
    "coordinate", "copy", "count", "cover", "create", "cut", "debug", "decide", "declare", "decline", "decommission",
    "decorate", "define", "delegate", "delete", "deliver", "demo", "demote", "deploy", "deposit", "descend",
    "design", "determine", "develop", "diagnose", "dig", "digitise", "digitize", "dip", "disable", "disassemble",
    "disconnect", "discuss", "disinfect", "dispatch", "dispose", "distribute", "do", "document", "download",
    "downsize", "draft", "drag", "drain", "draw", "dress", "drill", "drink", "drive", "drop", "dry", "dump", "eat",
    "edit", "eliminate", "empty", "enable", "encrypt", "end", "enjoy", "ensure", "escalate", "establish", "estimate",
    "evaluate", "examine", "execute", "exhibit", "expand", "expire", "export", "extend", "fail", "fertilise",
    "fertilize", "fetch", "fill", "film", "finalise", "finalize", "finance", "find", "finish", "fit", "fix", "flip",
    "fold", "follow", "forecast", "format", "forward", "freeze", "frost", "fry", "fuel", "fund", "garnish", "gather",
    "generate", "germinate", "get", "give", "go", "greet", "group", "grow", "guide", "hand", "hang", "harvest",
    "heal", "heat", "hike", "hire", "hold", "host", "hydrate", "ice", "identify", "implement", "import", "improve",
    "inflate", "inform", "insert", "inspect", "install", "interpret", "interview", "introduce", "invest",
    "investigate", "invite", "invoice", "iron", "isolate", "iterate", "join", "keep", "knead", "label", "launch",
    "lay", "lead", "learn", "leave", "let", "lift", "light", "limit", "list", "listen", "load", "localise",
    "localize", "lock", "log", "look", "loosen", "lower", "mail", "make", "manage", "map", "mark", "market", "mask",
    "measure", "meet", "mentor", "merge", "mitigate", "mix", "monitor", "mop", "mount", "move", "mulch", "name",
    "negotiate", "note", "notify", "observe", "obtain", "offer", "onboard", "open", "optimise", "optimize", "order",
    "organise", "organize", "outline", "oversee", "pack", "page", "paint", "pair", "park", "patch", "pause", "pay",
    "peel", "perform", "photograph", "pick", "ping", "place", "plan", "plant", "point", "polish", "poll", "position",
    "post", "pour", "power", "practice", "practise", "preheat", "prepare", "present", "press", "price", "prime",
    "print", "prioritise", "prioritize", "proceed", "profile", "promote", "proofread", "protect", "provide", "prune",
    "pry", "publish", "pull", "pump", "purchase", "push", "put", "quarantine", "question", "quote", "raise", "rake",
    "rank", "read", "reassemble", "rebase", "reboot", "rebuild", "record", "recover", "recruit", "recycle",
    "redirect", "reduce", "refactor", "reference", "refine", "reflect", "refund", "register", "rehearse",
    "reinstall", "reject", "relax", "release", "remind", "remove", "rename", "rent", "repair", "repeat", "replace",
    "replicate", "reply", "report", "request", "research", "reserve", "reset", "resolve", "respond", "rest",
    "restart", "restore", "resume", "retire", "return", "revert", "review", "revise", "revoke", "ride", "rightsize",
    "rinse", "roll", "rollback", "rotate", "roughen", "route", "rub", "run", "sample", "sand", "save", "scale",
    "scan", "schedule", "score", "scrape", "screen", "screw", "script", "scrub", "seal", "search", "season",
    "secure", "segment", "select", "sell", "send", "separate", "serve", "set", "sew", "shape", "share", "ship",
    "shop", "shortlist", "show", "showcase", "shrink", "shut", "sign", "simmer", "simplify", "sketch", "sleep",
    "slice", "slide", "soak", "sort", "sow", "spin", "split", "spread", "sprinkle", "stack", "stage", "start",
    "steer", "stir", "stop", "store", "stretch", "study", "submit", "summarise", "summarize", "supervise", "survey",
    "swap", "sweep", "switch", "sync", "tag", "take", "talk", "tape", "taste", "teach", "tell", "template",
    "terminate", "test", "thank", "thaw", "tidy", "tighten", "time", "toast", "tow", "trace", "track", "train",
    "transcribe", "transfer", "translate", "transplant", "transport", "trigger", "trim", "try", "tune", "turn",
    "uninstall", "unload", "unlock", "unpack", "unplug", "unscrew", "update", "upgrade", "upload", "use", "vacuum",
    "validate", "verify", "visit", "vote", "wait", "wake", "walk", "warn", "wash", "watch", "water", "wear", "weed",
    "weigh", "welcome", "wipe", "withdraw", "wrap", "write",
)  # fmt: skip
"""What people do in plans, in the form without an ending. Many are nouns, too: it says that a step may be one."""


class PlanGrade(NamedTuple):
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
    """Number and text of each step. Lines below a step that are not steps belong to it, indented numbers too."""
    found: list[tuple[int, list[str]]] = []
    for line in text.splitlines():
        match = _STEP.match(line)
        if match:
            found.append((int(match[1]), [match[2]]))
        elif found:
            found[-1][1].append(line)
    return [(number, "\n".join(lines).strip()) for number, lines in found]


def grade_plan(check: PlanCheck, text: str) -> PlanGrade:
    """By every criterion; one that a check says nothing of is met. Without a step, none is."""
    found = steps(text)
    bodies = [body for _, body in found]
    verbs = verb_forms(tuple(check.verbs) or ACTIONS)
    named = [any(has_phrase(text, wording) for wording in mention) for mention in check.mentions]
    kept = [_comes_before(bodies, *pair) for pair in check.order]
    shares = {
        "steps": float(check.least <= len(found) <= check.most),
        "numbered": float([number for number, _ in found] == list(range(1, len(found) + 1))),
        "distinct": _share([len({body.casefold() for body in bodies}) == len(bodies)]),
        "verbs": _share([not verbs.isdisjoint(_WORD.findall(body.casefold())) for body in bodies]),
        "mentions": _share(named),
        "order": _share(kept),
    }
    return PlanGrade(len(found), shares if found else dict.fromkeys(shares, 0.0))


def check_plan(check: PlanCheck, answer: Answer) -> Grade:
    found = grade_plan(check, answer_text(answer))
    missed = [name for name, share in found.shares.items() if share < 1.0]
    return Grade(found.passed, f"{counted(found.steps, 'step')}; misses {', '.join(missed)}" if missed else "")


def _share(kept: list[bool]) -> float:
    return round(sum(kept) / len(kept), 4) if kept else 1.0


def _comes_before(bodies: list[str], one: str, other: str) -> bool:
    first = [next((at for at, body in enumerate(bodies) if has_phrase(body, word)), None) for word in (one, other)]
    return first[0] is not None and first[1] is not None and first[0] < first[1]


@lru_cache(maxsize=64)
def verb_forms(verbs: tuple[str, ...]) -> frozenset[str]:
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
