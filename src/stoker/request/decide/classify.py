"""Which class of tasks is a request of? What its caller declared, else its form, else what was learned. Pure.

What was learned comes from tests/data/tasks (`python -m training.classifier`) and is measured on prompts that it has
not seen by `python -m bench.classifier`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import combinations

from stoker.domain.task import DEFAULT, HIGH_RISK, Outline, Source, Task
from stoker.request.decide.asks import Reading, read
from stoker.request.decide.features import features, form
from stoker.request.decide.weights import Weights

ALARM = 0.35
"""From this probability on it is taken for high-risk work. A miss costs three times a false alarm: below one half."""
HINT = 0.05
"""From this probability on a system prompt that asks for high-risk work makes it of a text that asks for nothing."""
CODING = ("code-write", "code-edit", "review")
"""What a long prompt does not make another task of."""
SIGNS = frozenset(("vision", "long-context", "tool-use"))
"""Classes that no text is of by its words alone."""
_NONE: frozenset[str] = frozenset()
PLAIN = 0.6
"""From this probability on it is plain what is asked for: by a system prompt; or work on code, whatever came before."""
MOST_SYSTEMS = 256
MOST_PARTS = 8
"""Sentences of a system prompt that are looked at."""
_PARTS = re.compile(r"[.!?\n]\s")
"""Between the sentences of a system prompt, which has 150 words at most."""


class Classifier:
    """`weights` know all classes of `stoker.domain.task`."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._systems: dict[int, str] = {}
        places = range(len(weights.classes))
        self._risky = tuple(at for at in places if weights.classes[at] in HIGH_RISK)
        others = {at: weights.classes[at] for at in places if weights.classes[at] not in HIGH_RISK}
        self._others = {
            signs: tuple(at for at, name in others.items() if name not in SIGNS or name in signs)
            for size in range(len(SIGNS) + 1)
            for signs in map(frozenset, combinations(SIGNS, size))
        }
        """What else it can be, by those of SIGNS that it may be of."""

    def classify(self, outline: Outline, declared: str | None, known: Collection[str]) -> Task:
        """The class, who said so, and why. Never raises. `known`: what may be declared; found are built-in classes.

        1. Declared, and known: that. Declared and unknown: noted, and the rest goes on.
        2. High-risk work is likely enough, by the text alone or with all: the likelier class of it, whatever the form.
           A miss here is dear. Where something else is more likely still, the task says what.
        3. The form says it: a forced call, images, JSON; a diff or an error, and no verb; nothing but code.
        4. The prompt is long, or results came back, and this is not plainly work on code.
        5. The text asks for nothing by name, and a short system prompt asks for one thing: that. High-risk work only
           where the text may be of it at all: thanks and small talk are not.
        6. The likeliest of the others; `chat` where there is nothing to go by.

        What needs an outward sign (images, tools, length) is not found without it.
        """
        if declared is not None and declared in known:  # 1
            return Task(declared, Source.DECLARED, ("declared",))
        notes = () if declared is None else ("unknown_class",)
        reading, classes, signs = read(outline.text), self._weights.classes, _signs(outline)
        others = self._others[signs]
        for likely in self._likely(reading, form(outline)):
            other = max(others, key=likely.__getitem__)
            if (risk := sum([likely[at] for at in self._risky])) >= ALARM:  # 2
                at = max(self._risky, key=likely.__getitem__)
                found = _learned(classes[at], likely[at], risk, risk, reading, notes)
                return found._replace(else_=classes[other]) if risk < 0.5 else found
        if shown := next(_form(outline, reading), None):  # 3
            return Task(shown[0], Source.RULES, (*notes, shown[1]))
        best, sure = classes[other], likely[other]
        is_coding = best in CODING and sure >= PLAIN and bool(reading.asks or reading.shapes)
        if not is_coding and (came := next(_history(outline), None)):  # 4
            return Task(came[0], Source.RULES, (*notes, came[1]))
        if best == DEFAULT and outline.systems:  # 5
            asked = {self._of_system(system) for system in outline.systems} - {"", DEFAULT, *(SIGNS - signs)}
            if len(asked) == 1 and (risk >= HINT or asked.isdisjoint(HIGH_RISK)):
                return Task(asked.pop(), Source.LEARNED, (*notes, "system"))
        if not outline.text:  # 6
            return Task(DEFAULT, Source.DEFAULT, (*notes, "nothing_matched"))
        return _learned(best, sure, sure, risk, reading, notes)

    def _likely(self, reading: Reading, forms: Collection[str]) -> Iterator[list[float]]:
        """By the text alone, and then, if there is more, by all there is."""
        weights, seen = self._weights, features(reading)
        text, size = weights.of_text(seen), seen.size
        for more in [(), forms] if forms else [()]:
            yield weights.likely(text, size, weights.of_form(more))

    def _of_system(self, text: str) -> str:
        """What a system prompt asks for, if that is plain and one thing. Remembered, for clients send the same one
        always: by its hash, which is salted anew in each process; what is kept holds nothing of it.
        """
        key = hash(text)
        if key not in self._systems:
            if len(self._systems) >= MOST_SYSTEMS:
                self._systems.clear()
            parts = dict.fromkeys(filter(str.strip, _PARTS.split(text)))
            asked = {self._plain(part) for part in list(parts)[:MOST_PARTS]} - {"", DEFAULT}
            self._systems[key] = asked.pop() if len(asked) == 1 else ""
        return self._systems[key]

    def _plain(self, text: str) -> str:
        likely = next(self._likely(read(text), ()))
        at = max(range(len(likely)), key=likely.__getitem__)
        return self._weights.classes[at] if likely[at] >= PLAIN else ""


def _learned(name: str, sure: float, shown: float, risk: float, reading: Reading, notes: tuple[str, ...]) -> Task:
    """The notes name verbs that Stoker knows, and no other word: they are kept with the decision. `shown`: what people
    are told of how sure it was.
    """
    asks = dict.fromkeys([f"ask:{ask.verb}" for ask in reading.asks[:2]])
    return Task(name, Source.LEARNED, (*notes, *asks, f"sure:{int(100 * shown)}%"), sure=sure, risk=risk)


def _signs(outline: Outline) -> frozenset[str]:
    """Those of SIGNS that it may be of."""
    uses_tools = outline.tools or outline.has_results or outline.forces_tool
    if not (uses_tools or outline.images or outline.is_long):
        return _NONE
    has = (("vision", outline.images), ("long-context", outline.is_long), ("tool-use", uses_tools))
    return frozenset([name for name, is_so in has if is_so])


def _form(outline: Outline, reading: Reading) -> Iterator[tuple[str, str]]:
    if outline.forces_tool:
        yield "tool-use", "forced"
    if outline.images:
        yield "vision", f"images:{outline.images}"
    if outline.wants_json:
        yield "json-extract", "wants_json"
    if not reading.asks and reading.shapes:
        bare = _SHOWN if reading.words else (*_SHOWN, *_ALONE)
        yield from ((name, f"shape:{shape}") for shape, name in bare if shape in reading.shapes)


_SHOWN = (("diff", "review"), ("error", "code-edit"))
_ALONE = (("code", "code-edit"), ("fence", "code-edit"))


def _history(outline: Outline) -> Iterator[tuple[str, str]]:
    if outline.is_long:
        yield "long-context", f"tokens:{outline.tokens}" if outline.tokens is not None else "long_by_size"
    if outline.has_results:
        yield "tool-use", "results"
