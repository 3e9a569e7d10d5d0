"""Is it planning, or a refactoring over many files? The two classes where a miss is dear. Pure.

Both need an ask and what the ask is about: a verb of planning among words of work, a verb of change with a breadth. A
word alone ("plans", "roadmap", "everywhere") is never enough: it may stand in anybody's evening or poem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stoker.domain.task import HIGH_RISK
from stoker.request.decide import shapes
from stoker.request.decide import signals as s
from stoker.request.decide.asks import Ask, Reading

PLANNING, REFACTOR = HIGH_RISK
_ABOUT = frozenset(
    ("tell", "describe", "show", "continue", "add", "list", "imagine", "need", "want", "present", "turn")
)
"""Verbs of `make` that may only speak of a plan."""
_OTHERS = s.words("review summarise extract translate prove")
_MAKERS = s.words("write implement create code build generate show give")
_MADE = s.words("story summary json")


def high_risk(reading: Reading) -> tuple[str, tuple[str, ...]] | None:
    """(class, notes), or None.

    1. Another kind of work is asked for first (a review, a summary, a story, a script): None.
    2. A plan is asked for: planning.
    3. A change in many places is asked for: multi-file-refactor.
    """
    if _is_other(reading):  # 1
        return None
    if notes := next(_plans(reading), None):  # 2
        return PLANNING, notes
    if notes := _refactors(reading):  # 3
        return REFACTOR, notes
    return None


def _is_other(reading: Reading) -> bool:
    if not reading.asks:
        return False
    first = reading.asks[0]
    if any(ask.verb in _SURE for ask in reading.asks):
        return False
    if first.kind in _MADE and "make" in first.roles:
        return True
    if first.kind == "code" and first.verb in _MAKERS and not first.given:
        return True
    if first.verb in (
        "have a",
        "find",
        "compare",
        "go through",
        "list",
        "turn",
        "convert",
        "reduce",
        "pull",
        "move",
        "split",
        "identify",
    ):
        return False
    if len(reading.words & _WEIGHED) >= 2:
        return False
    return bool(first.roles & _OTHERS) and not first.roles & {"change", "make", "plan"}


def _plans(reading: Reading) -> Iterator[tuple[str, ...]]:
    """What speaks for planning, rule by rule."""
    words = reading.words
    work = reading.telling & s.WORK
    private = reading.telling & s.PRIVATE
    if private and len(work) <= len(private):
        return
    for ask in reading.asks:
        if note := _plan_of(ask, reading, len(work)):
            yield (f"ask:{note}", *_words(work))
    if work and "how" in words:
        for sentence in reading.sentences:
            if verb := _how(sentence):
                yield (f"how:{verb}", *_words(work))
    first = reading.sentences[0] if reading.sentences else ()
    if work and first[:1] in (("a",), ("an",)) and (phrase := _PLAN_NOUNS.intersection(first[1:6])):
        yield (f"phrase:{min(phrase)}", *_words(work))
    if len(work) >= 2 and words & _QUESTIONS and (noun := _which(reading)):
        yield (f"what:{noun}", *_words(work))


def _plan_of(ask: Ask, reading: Reading, work: int) -> str | None:
    """1. A verb that makes, and a plan as its object. 2. A verb of planning, and work. 3. Something is designed.
    4. A verb that makes, its object unclear, and a plan in the same text of work.
    """
    if ask.verb in _TOLD:
        return None
    if ask.noun == "plan" and len(reading.words) <= MOST_BARE:  # 1
        return "plan"
    if ask.kind == "plan" and ask.roles & {"make", "design", "plan"} and (work or ask.noun in s.PLAN_STRONG):  # 1
        return ask.noun
    if ask.kind in _MADE:
        return None
    if "plan" in ask.roles and (work >= 2 if ask.kind == "code" or ask.verb not in _SURE else work):  # 2
        return ask.verb
    if (
        "design" in ask.roles
        and ask.verb in ("design", "redesign", "architect", "sketch", "entwirf", "diseña")
        and (reading.telling & s.DESIGNED)
    ):  # 3
        return ask.verb if ask.kind != "code" or ask.noun in s.DESIGNED else None
    coded = any(other.kind in ("code", "story") for other in reading.asks)
    if not ask.kind and not coded and "make" in ask.roles and ask.verb not in _ABOUT and work >= 2:  # 4
        return next(iter(sorted(reading.words & _PLAN_NOUNS)), None)
    return None


_TOLD = s.words("tell describe imagine continue")
MOST_BARE = 5
"""Words of a text that asks for a plan and does not say of what: somebody has said so before."""
_SURE = frozenset(("plan", "plan out", "architect", "roadmap", "plane", "planifica", "planifie", "decompose"))
_PLAN_NOUNS = frozenset(word for word, kind in s.NOUNS.items() if kind == "plan") - {"design", "proposal", "spec"}


def _how(sentence: Sequence[str]) -> str | None:
    """How should we structure ... : the verb."""
    for at, word in enumerate(sentence[:-3]):
        if word == "how" and sentence[at + 1] in s.MODAL and sentence[at + 2] in s.WE:
            return next((verb for verb in sentence[at + 3 : at + 5] if verb in s.PLANNED), None)
    return None


def _which(reading: Reading) -> str | None:
    """What would be a sensible architecture; which order should we; what's the plan."""
    for sentence in reading.sentences:
        begun = sentence[0] in ("what", "which", "what's") and _ASKING.intersection(sentence)
        if begun and (nouns := _ASKED.intersection(sentence[1:9])):
            return min(nouns)
        if (
            "order" in sentence
            and _DECIDED.intersection(sentence)
            and _ORDER.intersection(sentence[: sentence.index("order")])
        ):
            return "order"
        if "way" in sentence and s.PLANNED.intersection(sentence[sentence.index("way") + 1 :][:3]):
            return "way"
    if len(reading.words & _WEIGHED) >= 2:
        return min(reading.words & _WEIGHED)
    return None


_QUESTIONS = s.words("what which what's order way recommend recommendation")
_ASKING = s.words("should would we you to our what's")
_DECIDED = s.words("should we i do")
_ORDER = s.words("which what")
_WEIGHED = s.words("recommend recommendation options option alternatives trade-offs tradeoffs")
_ASKED = s.words("architecture order strategy steps phases plan roadmap sequence approach milestones path")


def _refactors(reading: Reading) -> tuple[str, ...] | None:
    """A change of code that is not of one thing, and its breadth:

    1. a quantity of scopes, or a word as wide: every module, throughout;
    2. a large change of the whole: the project;
    3. a phrase as wide: end to end;
    4. several areas of the code: models, views;
    5. several paths;
    6. a structure that is rebuilt: split into modules;
    7. from one framework, or one version, to another.
    """
    verbs = [ask.verb for ask in reading.asks if "change" in ask.roles and not _is_narrow(ask)]
    if not verbs and _is_obliged(reading):
        verbs = ["must"]
    if not verbs or "diff" in reading.shapes or _is_one(reading) or not _is_technical(reading):
        return None
    if breadth := _breadth(reading, verbs):
        return (f"ask:{verbs[0]}", *breadth)
    return None


def _breadth(reading: Reading, verbs: Sequence[str]) -> tuple[str, ...] | None:
    if wide := min(reading.telling & s.BREADTH, default=None) or _quantity(reading):  # 1
        return (f"word:{wide}",)
    is_large = any(verb not in _SMALL for verb in verbs)
    if is_large and (scope := _whole(reading)):  # 2
        return (f"word:{scope}",)
    if phrase := _wide(reading.prose.lower()):  # 3
        return (f"word:{phrase}",)
    areas = reading.telling & s.AREAS
    if len(areas) >= (2 if not reading.shapes and (is_large or _LARGE.intersection(verbs)) else 3):  # 4
        return _words(areas)
    if reading.paths >= 2:  # 5
        return (f"paths:{reading.paths}",)
    rebuilt = any("restructure" in s.VERBS.get(verb, ()) for verb in verbs)
    if rebuilt and (scope := min(reading.telling & s.STRUCTURE, default=None)):  # 6
        return (f"word:{scope}",)
    return _moved(reading, verbs)  # 7


def _wide(prose: str) -> str | None:
    found = shapes.WIDE.search(prose) if any(map(prose.__contains__, shapes.WIDES)) else None
    return found.group() if found else None


def _moved(reading: Reading, verbs: Sequence[str]) -> tuple[str, ...] | None:
    named = reading.telling & s.FRAMEWORKS
    if named and _versions(reading) >= 2 and {"upgrade", "migrate"}.intersection(verbs):
        return _words(named)
    if reading.shapes or reading.paths:
        return None
    moves = _MOVES.intersection(verbs)
    if moves - {"move", "replace"} and {"from", "to"} <= reading.words:
        return ("from_to",)
    if len(named) >= 2 and (moves or ("convert" in verbs and reading.words & _CONVERTED)):
        return _words(named)
    return None


_SMALL = s.words(
    "use catch get mark log store document format sort implement write handle fix add bump update make change put "
    "push pass bring touch adjust introduce"
)
_LARGE = s.words("update change")
_CONVERTED = s.WHOLE | {"backend", "frontend", "library", "service", "server", "client", "code"}
_MOVES = s.words("migrate switch port rewrite upgrade move transition replace swap")


def _is_narrow(ask: Ask) -> bool:
    return ask.kind in _MADE or ask.kind == "plan"


def _is_one(reading: Reading) -> bool:
    """This function, only that file."""
    if not (reading.telling & s.ONE and reading.telling & s.FEW):
        return False
    for sentence in reading.sentences:
        for at, word in enumerate(sentence[:-1]):
            if word in s.ONE and s.FEW.intersection(sentence[at + 1 : at + 3]):
                return True
    return False


def _is_obliged(reading: Reading) -> bool:
    """All handlers must, should, have to: nobody asks, and yet it is to be done."""
    return not reading.asks and "?" not in reading.prose and not _OBLIGED.isdisjoint(reading.words)


_OBLIGED = s.words("must should ought")


def _versions(reading: Reading) -> int:
    return sum(1 for word in reading.words if word[0].isdigit())


def _is_technical(reading: Reading) -> bool:
    found = reading.telling & s.TECHNICAL
    if len(found) < len(reading.telling & s.PRIVATE):
        return False
    return bool(found or reading.paths or reading.shapes or shapes.IDENTIFIER.search(reading.prose))


def _quantity(reading: Reading) -> str | None:
    """Every component, all of our classes, the whole project: the scope."""
    if not (reading.telling & s.SCOPE or "everything" in reading.words):
        return None
    for sentence in reading.sentences:
        for at, word in enumerate(sentence[:-1]):
            counted = word in s.QUANTITY or word[0].isdigit()
            if word == "everything" and sentence[at + 1] in _USES:
                return word
            if counted and (scope := next((w for w in sentence[at + 1 : at + 5] if w in s.SCOPE), None)):
                return scope
    return None


def _whole(reading: Reading) -> str | None:
    if not reading.telling & s.WHOLE:
        return None
    for sentence in reading.sentences:
        for at, word in enumerate(sentence[:-1]):
            if word in ("the", "our", "my", "das", "le", "el") and (
                scope := min(s.WHOLE.intersection(sentence[at + 1 : at + 3]), default=None)
            ):
                return scope
    return None


_USES = s.words("that which who imports importing uses using depends depending touching calling else under in")


def _words(found: frozenset[str]) -> tuple[str, ...]:
    return tuple(f"word:{word}" for word in sorted(found)[:3])
