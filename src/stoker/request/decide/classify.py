"""Which class of tasks is a request of? What its caller declared, else rules over what it shows. Pure.

The rules are measured against tests/data/tasks/labelled.jsonl by `python -m bench.classifier`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stoker.domain.task import DEFAULT, Outline, Source, Task
from stoker.request.decide.asks import Reading, read
from stoker.request.decide.highrisk import high_risk
from stoker.request.decide.rules import CODING, STRONG, WEAK, Rule
from stoker.request.decide.signals import SMALL_TALK

LONG = 32_768
"""Tokens of a prompt from which its length decides what it is."""
MOST_SMALL_TALK = 6
"""Words of a text that may be a greeting."""

LEAST_THOUGHT = 15
"""Different words of a text that was worth a switch to thinking; harnesses ask for it always."""

Found = tuple[str, tuple[str, ...]]


def classify(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    """The class, who said so, and why. Never raises. A class that is not in `known` is never found by rules;
    `chat` is what remains, whether it is known or not.

    1. Declared, and known: that. Declared and unknown: noted, and the rules go on.
    2. The text asks for high-risk work: that class, whatever else is there. A miss here is dear.
    3. What the request's form says: a forced call, images, JSON.
    4. The text asks for work on code.
    5. The prompt is long.
    6. The text asks for something else by name.
    7. Results came back, or tools are offered and this is no greeting.
    8. A short system prompt asks for exactly one class.
    9. Weaker signs in the text: bare code, puzzles, numbers.
    10. Nothing: `chat`.
    """
    if declared is not None and declared in known:  # 1
        return Task(declared, Source.DECLARED, ("declared",))
    notes = () if declared is None else ("unknown_class",)
    for name, why in _found(outline):
        if name in known:
            return Task(name, Source.RULES, (*notes, *why))
    return Task(DEFAULT, Source.DEFAULT, (*notes, "nothing_matched"))  # 10


def _found(outline: Outline) -> Iterator[Found]:
    reading = read(outline.text)
    if risky := high_risk(reading):  # 2
        yield risky
    yield from _form(outline)  # 3
    yield from _ruled(CODING, reading)  # 4
    if outline.tokens is not None and outline.tokens >= LONG:  # 5
        yield "long-context", (f"tokens:{outline.tokens // 1024}k",)
    yield from _ruled(STRONG, reading)  # 6
    yield from _tools(outline, reading)  # 7
    yield from _standing(outline.systems, reading)  # 8
    yield from _ruled(WEAK, reading)  # 9
    if outline.wants_thinking and len(reading.words) >= LEAST_THOUGHT:
        yield "reasoning", ("wants_thinking",)


def _form(outline: Outline) -> Iterator[Found]:
    if outline.forces_tool:
        yield "tool-use", ("forced",)
    if outline.images:
        yield "vision", (f"images:{outline.images}",)
    if outline.wants_json:
        yield "json-extract", ("wants_json",)


def _tools(outline: Outline, reading: Reading) -> Iterator[Found]:
    if outline.has_results:
        yield "tool-use", ("results",)
    talk = len(reading.words) <= MOST_SMALL_TALK and reading.words <= SMALL_TALK
    if outline.tools and not talk:
        yield "tool-use", (f"tools:{outline.tools}",)


def _standing(systems: Sequence[str], reading: Reading) -> Iterator[Found]:
    """A system prompt that names several kinds of work says what may come, not what this is."""
    if reading.words <= SMALL_TALK and not reading.shapes:
        systems = [system for system in systems if "whatever" in system or "everything" in system]
    found = [each for system in systems for each in _known(system)]
    if found and len({name for name, _ in found}) == 1:
        yield found[0]


_KNOWN: dict[int, tuple[Found, ...]] = {}
MOST_KNOWN = 256


def _known(system: str) -> tuple[Found, ...]:
    """What a system prompt says, remembered: clients send the same one with every request. By its hash, which is salted
    anew in each process; what is kept holds nothing of it.
    """
    key = hash(system)
    if key not in _KNOWN:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = tuple(_each(system))
    return _KNOWN[key]


def _each(system: str) -> Iterator[Found]:
    reading = read(system)
    if risky := high_risk(reading):
        yield risky[0], ("system", *risky[1])
    else:
        yield from ((name, ("system", *why)) for name, why in _ruled((*CODING, *STRONG), reading))


def _ruled(rules: Sequence[tuple[str, Rule]], reading: Reading) -> Iterator[Found]:
    return ((name, (note,)) for name, rule in rules if (note := rule(reading)))
