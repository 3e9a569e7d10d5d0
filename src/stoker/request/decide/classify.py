"""Which class of tasks is a request of? What its caller declared, else its form, else what was learned. Pure.

What was learned comes from tests/data/tasks (`python -m training.classifier`) and is measured on prompts that it has
not seen by `python -m bench.classifier`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from stoker.domain.task import DEFAULT, HIGH_RISK, Outline, Source, Task
from stoker.request.decide.asks import Reading, read
from stoker.request.decide.features import features, form
from stoker.request.decide.weights import Weights

ALARM = 0.3
"""From this probability on it is taken for high-risk work. A miss costs three times a false alarm: below one half."""
CODING = ("code-write", "code-edit", "review")
"""What a long prompt does not make another task of."""
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

    def classify(self, outline: Outline, declared: str | None, known: Collection[str]) -> Task:
        """The class, who said so, and why. Never raises. A class that is not in `known` is never found; `chat` is what
        remains, whether it is known or not.

        1. Declared, and known: that. Declared and unknown: noted, and the rest goes on.
        2. High-risk work is likely enough, by the text alone or with all: the likelier class of it, whatever the form.
           A miss here is dear. Where something else is more likely still, the task says what.
        3. The form says it: a forced call, images, JSON; a diff or an error, and no verb; nothing but code.
        4. The prompt is long, or results came back, and this is not plainly work on code.
        5. The text asks for nothing by name, and a short system prompt asks for one thing: that.
        6. The likeliest of the others; `chat` where there is nothing to go by.
        """
        if declared is not None and declared in known:  # 1
            return Task(declared, Source.DECLARED, ("declared",))
        notes = () if declared is None else ("unknown_class",)
        reading = read(outline.text)
        for likely in self._likely(reading, form(outline), known):
            risky = [name for name in HIGH_RISK if name in likely]
            if (risk := sum([likely[name] for name in risky])) >= ALARM:  # 2
                found = _learned(max(risky, key=likely.__getitem__), likely, reading, notes, risk)
                rest = [name for name in likely if name not in HIGH_RISK]
                return found._replace(else_=max(rest, key=likely.__getitem__)) if risk < 0.5 and rest else found
            for name in risky:
                del likely[name]
        for name, note in _form(outline, reading):  # 3
            if name in known:
                return Task(name, Source.RULES, (*notes, note))
        best = max(likely, key=likely.__getitem__, default=DEFAULT)
        is_coding = best in CODING and likely[best] >= PLAIN and bool(reading.asks or reading.shapes)
        if not is_coding:  # 4
            for name, note in _history(outline):
                if name in known:
                    return Task(name, Source.RULES, (*notes, note))
        if best == DEFAULT and outline.systems:  # 5
            asked = {self._of_system(system) for system in outline.systems} - {"", DEFAULT}
            if len(asked) == 1 and asked <= set(known):
                return Task(asked.pop(), Source.LEARNED, (*notes, "system"))
        if best not in likely or not outline.text:  # 6
            return Task(DEFAULT, Source.DEFAULT, (*notes, "nothing_matched"))
        return _learned(best, likely, reading, notes, risk)

    def _likely(self, reading: Reading, forms: Collection[str], known: Collection[str]) -> Iterator[dict[str, float]]:
        """By the text alone, and then, if there is more, by all there is."""
        weights = self._weights
        text = weights.of_text(features(reading))
        for total in (text + weights.of_form(more) for more in ([(), forms] if forms else [()])):
            found = zip(weights.classes, weights.likely(total), strict=True)
            yield {name: likely for name, likely in found if name in known}

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
        likely = next(self._likely(read(text), (), self._weights.classes))
        best = max(likely, key=likely.__getitem__)
        return best if likely[best] >= PLAIN else ""


def _learned(name: str, likely: Mapping[str, float], reading: Reading, notes: tuple[str, ...], risk: float) -> Task:
    """The notes name verbs that Stoker knows, and no other word: they are kept with the decision."""
    asks = dict.fromkeys([f"ask:{ask.verb}" for ask in reading.asks[:2]])
    return Task(
        name,
        Source.LEARNED,
        (*notes, *asks, f"sure:{int(100 * (risk if name in HIGH_RISK else likely[name]))}%"),
        sure=likely[name],
        risk=risk,
    )


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
