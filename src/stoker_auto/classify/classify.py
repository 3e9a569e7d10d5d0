"""The task class of a request: the one that its caller declared, else that of its conversation's task. Pure.

The weights are learned from tests/data/tasks (`python -m training.classifier`). `python -m bench.classifier` measures
them on prompts that were not used for learning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.task import DEFAULT, HIGH_RISK, NOTHING_AROUND, UNKNOWN, Around, ClassSource, Outline, Task
from stoker_auto.classify import languages
from stoker_auto.classify.asks import Reading, read
from stoker_auto.classify.continuing import MOST_CHARACTERS, Continues, continues
from stoker_auto.classify.conversation import SingleRequest, Starts, is_of_work, starts, starts_anew
from stoker_auto.classify.features import features, form
from stoker_auto.classify.references import COMMAND, Says, says
from stoker_auto.classify.risk import MAY_BE_BROAD, Asked, Grade, asked, offered, offers
from stoker_auto.classify.weights import Weights

ALARM = 0.3
"""From this probability on, a request counts as high-risk work. It is low, because a miss costs three false alarms."""
HINT = 0.05
"""If a text that asks for nothing has this probability of high risk, a system prompt that asks for it decides."""
CODING = ("code-write", "code-edit", "review")
"""Classes that a long prompt does not change."""
SIGNS = frozenset(("vision", "long-context", "tool-use"))
"""Classes that are never found from the words of a text alone."""
_NONE: frozenset[str] = frozenset()
PLAIN = 0.6
"""From this probability on, a class is plain: of a system prompt, or of work on code after something else."""
LEARNED = 0.5
"""If fewer of its words are known, a text is in a language that was not learned."""
PROPOSED = 0.5
"""From this probability on, a part of what the model wrote proposes high-risk work."""
SURELY = 0.8
"""From this probability on, a text that was read for a task says that it is harmless."""
PART = 320
"""Characters of such a text that are read as one part, if its lines are shorter."""
FEWEST_WORDS = 4
"""A shorter part says nothing."""
SURE_ALARM = 0.9
"""From this probability on, a text counts as high-risk work where tools can change files, whatever it asks for."""
CERTAIN = 0.99
"""From this probability on, only a question and work on a document are harmless."""
DECAY = 3
"""How many requests before one that only goes on count for its risk."""
WIDE = 8
"""From so many files that the agent changed for one request on, what goes on with it is risky."""
MOST_SYSTEMS = 256
MOST_TEXTS = 1024
"""How many texts and their results are cached: a conversation sends its texts again with each request."""
MOST_PARTS = 8
"""How many sentences of a system prompt are read."""
_PARTS = re.compile(r"[.!?\n]\s")
"""Separates the sentences of a system prompt, which has 150 words at most."""


class _Harmless(NamedTuple):
    """What a text is, if it is not high-risk work."""

    name: str
    sure: float
    risk: float
    start: Starts


class _Seen(NamedTuple):
    """The result for one text. It holds nothing of the text except verbs that Stoker knows."""

    likely: tuple[list[float], ...]
    """The probability of each class: by the text alone, then with the form of the request, if that adds something."""
    verbs: tuple[str, ...]
    shapes: frozenset[str]
    words: int
    """How many different words were read."""
    is_of_work: bool
    says: Says
    is_anew: bool
    """It begins by saying that it is a new task."""
    is_question: bool
    """It asks what is, not what is to be done."""
    is_learned: bool
    """It is in a language that was learned, or too short to tell."""
    asked: Asked
    """What it asks for, by the risk of that. Read only where tools can change files."""
    risk: float
    """The highest of the probabilities of high risk in `likely`."""
    alarming: list[float] | None
    """Those of `likely` by which it is high-risk work; None: it is not."""
    harmless: dict[frozenset[str], _Harmless]
    """Cached results of `_harmless`."""
    passed_over: dict[tuple[frozenset[str], bool, bool, Says], bool]
    """Cached results of `_is_passed_over`."""


class _Places:
    """Places of some classes."""

    def __init__(self, places: Sequence[int]) -> None:
        self._places = tuple(places)
        self._of = itemgetter(*places)

    def most_likely(self, likely: Sequence[float]) -> int:
        these: tuple[float, ...] = self._of(likely)
        return self._places[these.index(max(these))]


class Classifier:
    """`weights` know all classes of `stoker.domain.task`."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._systems: dict[int, str] = {}
        self._texts: dict[tuple[int, int, tuple[str, ...], bool], _Seen] = {}
        self._offers: dict[tuple[int, int], tuple[Asked, bool]] = {}
        places = range(len(weights.classes))
        self._risky = tuple(at for at in places if weights.classes[at] in HIGH_RISK)
        self._risks = itemgetter(*self._risky)
        others = {at: weights.classes[at] for at in places if weights.classes[at] not in HIGH_RISK}
        self._others = {
            signs: _Places([at for at, name in others.items() if name not in SIGNS or name in signs])
            for size in range(len(SIGNS) + 1)
            for signs in map(frozenset, combinations(SIGNS, size))
        }
        """The classes that are not high-risk, by the SIGNS that the request has."""

    @property
    def remembered_systems(self) -> Mapping[int, str]:
        """The classes that system prompts ask for, by hash: at most MOST_SYSTEMS."""
        return MappingProxyType(self._systems)

    @property
    def remembered_texts(self) -> Mapping[tuple[int, int, tuple[str, ...], bool], object]:
        """The results for texts, by hash, length and form: at most MOST_TEXTS."""
        return MappingProxyType(self._texts)

    def classify(self, outline: Outline, declared: str | None, known: Collection[str]) -> Task:
        """The class, who said so, and why. Never raises. `known`: what may be declared; found are built-in classes.

        1. Declared, and known: that. Declared and unknown: noted, and the rest goes on.
        2. The conversation is followed from its newest request to its oldest. A request that only goes on with what
           came before ("continue", or nothing at all) has no class of its own. A short one that asks for nothing by
           name, and is not plain by itself, has one only if no request before it has.
        3. A request is high-risk work: that is the task of the conversation, up to the newest request. If it counts as
           high-risk only as a precaution, its likelier class counts only if no request before it is high-risk.
        4. A request plainly starts another task (see `conversation`): what came before it no longer counts.
        5. None is high-risk: the newest one that has a class of its own.
        6. The earlier turns cannot be read, and no request here plainly starts a task: `unknown`, if an offered tool
           can change files or nothing indicates a class.
        7. Tools can change files: the risk of what is asked for decides, see `_by_risk`.
        8. No request has a class of its own: the class from the form or from a short system prompt, if no tool can
           change files; else `unknown`.

        If tools that change files are offered, or may be, a request whose work cannot be seen is `unknown`, and counts
        like high-risk work: see `_wary`.
        """
        if declared is not None and declared in known:  # 1
            return Task(declared, ClassSource.DECLARED, ("declared",))
        notes = () if declared is None else ("unknown_class",)
        found, is_whole = self._followed(outline, notes)
        if outline.changes_files and found is not None:
            found = self._by_risk(outline, found, notes)
        if found is None:
            return self._without_request(outline, notes)  # 8
        if is_whole or not (outline.may_change_files or found.name == DEFAULT):
            return found  # 3, 4, 5
        if outline.hides_tools and not found.back and languages.is_question(outline.text):
            return found  # 5: it asks what is, not what is to be done
        return (
            found._replace(else_="") if found.name in HIGH_RISK else Task(UNKNOWN, ClassSource.DEFAULT, (*notes, "cut"))
        )  # 6

    def _followed(self, outline: Outline, notes: tuple[str, ...]) -> tuple[Task | None, bool]:
        """The current task of the conversation, and whether no earlier turn can change it."""
        found: Task | None = None
        unsure: Task | None = None
        aside: Task | None = None
        is_newest = True
        wary, forms, signs, around = outline.may_change_files, form(outline), _signs(outline), NOTHING_AROUND
        for back in range(1 + len(outline.earlier)):  # 2
            text = outline.request(back)
            if wary:
                around = outline.around_request(back)
                if around.said and (proposed := self._proposed(text, around.said)):
                    return proposed._replace(notes=(*notes, f"earlier:{back}", "proposed"), back=back), True  # 3
            if found is not None and self._is_passed_over(text, forms, signs, outline, wary, around.has_attachment):
                continue
            goes_on = continues(text)
            if goes_on is Continues.ONLY:
                is_newest = False
                continue
            seen = self._seen(text, forms, wary, around.has_attachment)
            task, start = self._own(seen, outline, (*notes, f"earlier:{back}") if back else notes, signs, wary)
            if wary:
                is_oldest = back == len(outline.earlier)
                task = self._wary(task, seen, text, around, goes_on, is_oldest)
            leans = goes_on is Continues.GOES_ON or (goes_on is Continues.LINKED and _leans_on(task, back, outline))
            if leans and (task.else_ or task.name not in HIGH_RISK) and not _is_unseen(task):
                is_newest = False
                continue
            if (
                found is None
                and goes_on is Continues.NO
                and task.name != UNKNOWN
                and _may_lean(task, text, back, outline)
            ):
                unsure, is_newest = unsure or task._replace(back=back), False
                continue
            task = task._replace(back=back) if back else task
            if task.name in HIGH_RISK:
                found = _riskier(found, task)  # 3
                if not found.else_:
                    return found, True
            elif task.name == UNKNOWN:
                found = found if found is not None and found.name == UNKNOWN else task  # 3
            elif start is Starts.ASIDE:
                if is_newest:
                    return task, True
                aside = aside or task
                continue
            elif found is None:
                found = task
            is_newest = False
            if start is Starts.TASK:
                return found, True  # 4
        if wary and unsure is not None and (found is None or found.name not in _WORK):
            return Task(UNKNOWN, ClassSource.DEFAULT, (*notes, "unsure")), True
        return found or aside or unsure, not outline.is_cut  # 5

    def _by_risk(self, outline: Outline, found: Task, notes: tuple[str, ...]) -> Task:
        """The task, if what the newest request asks for, and what the session did so far, agree that it is risky or
        that it is not. `found`: by the texts of the whole conversation, in which what was risky once stays so.

        | the newest request                                    | the task                                             |
        |-------------------------------------------------------|------------------------------------------------------|
        | asks for something risky                              | high-risk work, whatever its text is likeliest to be |
        | goes on with something (yes, "continue")              | risky, if what the model offered is, or one of the   |
        |                                                       | DECAY requests before it, or if these changed many   |
        |                                                       | files; harmless, if all of them are; else `found`    |
        | asks for something, and the agent changed many files  | high-risk work                                       |
        | for it already                                        |                                                      |
        | plainly asks for something harmless                   | the likeliest class that is not high-risk, see       |
        |                                                       | `_may_lower`                                         |
        | says nothing of its risk, points at work that is not  | `found`                                              |
        | seen, is a command by name, in another language       |                                                      |
        """
        forms, signs = form(outline), _signs(outline)
        around = outline.around_request(0)
        seen = self._seen(outline.text, forms, True, around.has_attachment)
        risk = seen.asked
        if risk.grade is Grade.UNREAD or not outline.text.strip():
            return found
        if risk.grade is Grade.OPEN:
            return self._going_on(outline, found, notes, forms, signs)
        if risk.grade is Grade.RISKY:
            return self._risky_task(found, risk, notes)
        if risk.why not in ("asks", "looks") and around.changed >= WIDE:
            return self._risky_task(found, Asked(Grade.RISKY, "wide"), notes)
        is_at_risk = found.name in HIGH_RISK or found.name == UNKNOWN
        if not is_at_risk or not _may_lower(outline, found, seen):
            return found
        return self._lowered(seen, risk.why, notes, signs)

    def _going_on(
        self, outline: Outline, found: Task, notes: tuple[str, ...], forms: tuple[str, ...], signs: frozenset[str]
    ) -> Task:
        """The task of a request that only goes on."""
        before, lingers = self._before(outline, forms)
        if lingers.grade is Grade.RISKY:
            return self._risky_task(found, lingers, notes)
        around = outline.around_request(0)
        if around.said:
            offer, is_alarming = self._offered(around.said)
            if offer.grade is Grade.RISKY:
                return self._risky_task(found, offer, notes)
            if offer.grade is Grade.UNREAD or (offer.grade is Grade.OTHER and is_alarming):
                return found
        is_lower = lingers.grade is Grade.HARMLESS and found.name in HIGH_RISK and found.back and not outline.is_cut
        return self._lowered(before, "goes_on", notes, signs) if is_lower and around.is_own and before else found

    def _before(self, outline: Outline, forms: tuple[str, ...]) -> tuple[_Seen | None, Asked]:
        """The request before the newest one that says something itself; and the risk of the last DECAY such requests,
        up to one that says that it is a new task: RISKY if one is, HARMLESS if all are, else OTHER.
        """
        before: _Seen | None = None
        counted, is_harmless = 0, True
        for back in range(1, 1 + len(outline.earlier)):
            around = outline.around_request(back)
            if around.changed >= WIDE:
                return before, Asked(Grade.RISKY, "wide")
            seen = self._seen(outline.request(back), forms, True, around.has_attachment)
            asks = seen.asked
            if asks.grade is Grade.OPEN:
                continue
            if asks.grade is Grade.RISKY:
                return before, asks
            if _is_alarming(seen):
                return before, Asked(Grade.RISKY, "broad")
            if not around.is_own:
                continue
            before, counted = before or seen, counted + 1
            is_harmless = is_harmless and asks.grade is Grade.HARMLESS and seen.is_learned
            if counted == DECAY or seen.is_anew:
                break
        return before, Asked(Grade.HARMLESS if is_harmless and counted else Grade.OTHER)

    def _offered(self, said: str) -> tuple[Asked, bool]:
        """What the model offers, and whether its text proposes high-risk work. Cached like `_seen`."""
        key = hash(said), len(said)
        found = self._offers.get(key)
        if found is None:
            if len(self._offers) >= MOST_TEXTS:
                self._offers.clear()
            offer = offered(said)
            is_alarming = offer.grade is Grade.OTHER and self._riskiest(offers(said), PROPOSED) is not None
            found = self._offers[key] = offer, is_alarming
        return found

    def _risky_task(self, found: Task, risk: Asked, notes: tuple[str, ...]) -> Task:
        """High-risk work. Of another class than `found`, if that is a plan and this is none."""
        if found.name == UNKNOWN or (risk.why == "unseen" and "results" in found.notes):
            return found
        note = f"risk:{risk.why}"
        is_plan = found.name == "planning" and risk.why not in ("plans", "unseen")
        if found.name in HIGH_RISK and not is_plan:
            return found._replace(notes=(*found.notes, note), else_="")
        if risk.why == "unseen":
            return _unseen((*notes, note))
        return Task(_OF_RISK.get(risk.why, "multi-file-refactor"), ClassSource.RULES, (*notes, note), risk=1.0)

    def _lowered(self, seen: _Seen, why: str, notes: tuple[str, ...], signs: frozenset[str]) -> Task:
        best = self._harmless(seen, signs, True)
        return _learned(best.name, best.sure, best.sure, best.risk, seen.verbs, (*notes, f"low:{why}"))

    def _wary(self, task: Task, seen: _Seen, text: str, around: Around, goes_on: Continues, is_oldest: bool) -> Task:
        """The class of one request where tools can change files: `unknown`, if its work cannot be seen.

        | the request                                             | its class                                         |
        |---------------------------------------------------------|---------------------------------------------------|
        | may be high-risk work                                   | that class, and no likelier one                   |
        | is a command by name                                    | `unknown`; the high-risk class that its name says |
        | points at a text, or came with one                      | that of the first tool results, if a part of them |
        |                                                         | is high-risk or plainly harmless; else `unknown`  |
        | is in a language that was not learned                   | its own, if it plainly asks for little; else      |
        |                                                         | `unknown`                                         |
        | asks for nothing by name, and goes on with something    | `unknown`, unless there is a request before it    |
        | or is not plain by itself                               |                                                   |
        | is anything else                                        | its own                                           |
        """
        if task.name in HIGH_RISK:
            return task._replace(else_="")
        if seen.says is Says.COMMAND:
            named = self._riskiest(COMMAND.sub(lambda found: _AS_WORDS.sub(" ", found[1]), text, count=1))
            notes = (*_kept(task.notes), "command")
            return named._replace(notes=notes) if named else _unseen(notes)
        if seen.says is Says.REFERENCE:
            return self._of_results(around, _kept(task.notes))
        if languages.is_small(text):
            return task
        if not seen.is_learned:
            return _unseen((*_kept(task.notes), "language"))
        is_unsure = task.sure is not None and task.sure < PLAIN and not seen.is_question
        leans = is_oldest and not seen.verbs and (goes_on is not Continues.NO or is_unsure)
        return _unseen((*_kept(task.notes), "unsure")) if leans else task

    def _of_results(self, around: Around, notes: tuple[str, ...]) -> Task:
        """The class of a request that points at a text, by the first tool results after it."""
        harmless: Task | None = None
        is_clear = around.is_whole
        for part in (part for result in around.results for part in _parts_of(_OWN_NAME.sub("", result))):
            seen = self._seen(part, (), True)
            likely = seen.likely[0]
            risk = sum(self._risks(likely))
            if risk >= ALARM and seen.words >= FEWEST_WORDS:
                at = max(self._risky, key=likely.__getitem__)
                return _learned(self._weights.classes[at], likely[at], risk, risk, (), (*notes, "results"))
            is_clear = is_clear and seen.is_learned and seen.says is not Says.REFERENCE
            other = self._others[_NONE].most_likely(likely)
            if seen.verbs and seen.words >= FEWEST_WORDS and likely[other] >= SURELY and risk < HINT:
                name = self._weights.classes[other]
                harmless = harmless or _learned(name, likely[other], likely[other], risk, (), (*notes, "results"))
        return harmless if harmless is not None and is_clear else _unseen((*notes, "reference"))

    def _proposed(self, text: str, said: str) -> Task | None:
        """The high-risk work that the model proposed, if the request only says yes to it; None: it proposed none."""
        if continues(text) is Continues.NO:
            return None
        found = (self._riskiest(part, PROPOSED) for part in _parts_of(said))
        return next((task for task in found if task is not None), None)

    def _riskiest(self, text: str, alarm: float = ALARM) -> Task | None:
        """The high-risk class of a text; None: it is of another one."""
        seen = self._seen(text, ())
        likely = seen.likely[0]
        risk = sum(self._risks(likely))
        if risk < alarm or (alarm == PROPOSED and seen.words < FEWEST_WORDS):
            return None
        at = max(self._risky, key=likely.__getitem__)
        return _learned(self._weights.classes[at], likely[at], risk, risk, (), ())

    def _is_passed_over(
        self, text: str, forms: tuple[str, ...], signs: frozenset[str], outline: Outline, wary: bool, attached: bool
    ) -> bool:
        """Whether an earlier request can neither be high-risk work, nor unknown, nor start a task. Cached, because a
        long conversation has hundreds of them.
        """
        seen = self._seen(text, forms, wary, attached)
        key = signs, wary, bool(outline.systems), seen.says
        found = seen.passed_over.get(key)
        if found is None:
            risk = max([sum(self._risks(likely)) for likely in seen.likely])
            found = (
                risk < ALARM
                and (risk < HINT or not outline.systems)
                and self._harmless(seen, signs, wary).start is not Starts.TASK
                and not (wary and (seen.says is not Says.OWN or not seen.is_learned))
            )
            seen.passed_over[key] = found
        return found

    def _harmless(self, seen: _Seen, signs: frozenset[str], wary: bool) -> _Harmless:
        """The likeliest class that is not high-risk, and what a request of it starts. Cached; `wary` as for `seen`."""
        found = seen.harmless.get(signs)
        if found is None:
            likely = seen.likely[-1]
            other = self._others[signs].most_likely(likely)
            name, sure, risk = self._weights.classes[other], likely[other], sum(self._risks(likely))
            own = SingleRequest(name, sure, risk, seen.words, seen.is_of_work, seen.is_anew)
            found = seen.harmless[signs] = _Harmless(name, sure, risk, starts(own, wary))
        return found

    def _without_request(self, outline: Outline, notes: tuple[str, ...]) -> Task:
        if not outline.may_change_files:
            if shown := _form(outline, has_asks=False):
                return Task(shown[0], ClassSource.RULES, (*notes, shown[1]))
            asked = {self._of_system(system) for system in outline.systems} - {"", DEFAULT, *(SIGNS - _signs(outline))}
            if len(asked) == 1 and asked.isdisjoint(HIGH_RISK):
                return Task(asked.pop(), ClassSource.LEARNED, (*notes, "system"))
        why = "nothing_before" if outline.text.strip() else "no_request"
        return Task(UNKNOWN, ClassSource.DEFAULT, (*notes, why))

    def _own(
        self, seen: _Seen, outline: Outline, notes: tuple[str, ...], signs: frozenset[str], wary: bool
    ) -> tuple[Task, Starts]:
        """The class of one request, and whether that request plainly starts a task.

        1. High-risk work is likely enough, by the text alone or with the form: the likelier high-risk class, whatever
           the form, because a miss is expensive. If another class is even likelier, the task names it.
        2. The form says it: a forced call, images, JSON; a diff or an error, and no verb; nothing but code.
        3. The prompt is long, or results came back, and this is not plainly work on code.
        4. The text asks for nothing by name, and a short system prompt asks for one thing: that. High-risk work only
           if the text may belong to it at all: thanks and small talk do not.
        5. The likeliest of the others.

        What needs an outward sign (images, tools, length) is not found without it.
        """
        if (likely := seen.alarming) is not None:  # 1
            classes, risk = self._weights.classes, sum(self._risks(likely))
            at = max(self._risky, key=likely.__getitem__)
            found = _learned(classes[at], likely[at], risk, risk, seen.verbs, notes)
            else_ = classes[self._others[signs].most_likely(likely)] if risk < 0.5 else ""
            return found._replace(else_=else_) if else_ else found, Starts.NOTHING
        best, sure, risk, start = self._harmless(seen, signs, wary)
        if shown := _form(outline, bool(seen.verbs), seen.shapes, seen.words):  # 2
            return Task(shown[0], ClassSource.RULES, (*notes, shown[1])), start
        is_coding = best in CODING and sure >= PLAIN and bool(seen.verbs or seen.shapes)
        if not is_coding and (came := _history(outline)):  # 3
            return Task(came[0], ClassSource.RULES, (*notes, came[1])), start
        if best == DEFAULT and outline.systems:  # 4
            asked = {self._of_system(system) for system in outline.systems} - {"", DEFAULT, *(SIGNS - signs)}
            if len(asked) == 1 and (risk >= HINT or asked.isdisjoint(HIGH_RISK)):
                return Task(asked.pop(), ClassSource.LEARNED, (*notes, "system")), Starts.NOTHING
        return _learned(best, sure, sure, risk, seen.verbs, notes), start  # 5

    def _seen(self, text: str, forms: tuple[str, ...], wary: bool = False, has_attachment: bool = False) -> _Seen:
        """The result for a text. Cached, because a conversation sends its texts again with each request; the key is a
        hash that is salted anew in each process. `wary`: also what it points at.
        """
        key = hash(text), len(text), forms, wary
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            reading = read(text)
            verbs = tuple([ask.verb for ask in reading.asks])
            likely = self._likely(reading, forms)
            it_says, anew, asks, learned, risk = Says.OWN, False, False, True, _NOT_ASKED
            if wary:
                risk = asked(text)
                it_says, anew, asks = (
                    says(reading.prose, shows_code=bool(reading.shapes)),
                    starts_anew(text),
                    languages.is_question(text),
                )
                learned = self._weights.share_known(reading.words) >= LEARNED
            alarming = next((one for one in likely if sum(self._risks(one)) >= ALARM), None)
            found = _Seen(
                likely, verbs, reading.shapes, len(reading.words), is_of_work(reading), it_says, anew, asks, learned,
                risk, max([sum(self._risks(one)) for one in likely]), alarming, {}, {},
            )  # fmt: skip
            self._texts[key] = found
        if has_attachment and found.says is Says.OWN:
            return found._replace(says=says(text, True, bool(found.shapes)))
        return found

    def _likely(self, reading: Reading, forms: Collection[str]) -> tuple[list[float], ...]:
        weights, seen = self._weights, features(reading)
        text, size = weights.of_text(seen), seen.size
        alone = weights.likely(text, size)
        return (alone, weights.likely(text, size, forms)) if forms else (alone,)

    def _of_system(self, text: str) -> str:
        """The class that a system prompt asks for, if that is plain and one thing. Cached, because clients always send
        the same one; the key is a salted hash, and the cache holds nothing of the text.
        """
        key = hash(text)
        if key not in self._systems:
            if len(self._systems) >= MOST_SYSTEMS:
                self._systems.clear()
            parts = dict.fromkeys(filter(str.strip, _PARTS.split(text)))
            asked = {self._class_if_plain(part) for part in list(parts)[:MOST_PARTS]} - {"", DEFAULT}
            self._systems[key] = asked.pop() if len(asked) == 1 else ""
        return self._systems[key]

    def _class_if_plain(self, text: str) -> str:
        likely = self._likely(read(text), ())[0]
        at = max(range(len(likely)), key=likely.__getitem__)
        return self._weights.classes[at] if likely[at] >= PLAIN else ""


def _learned(name: str, sure: float, shown: float, risk: float, verbs: tuple[str, ...], notes: tuple[str, ...]) -> Task:
    """A task from learned weights. Its notes are stored with the decision, so they name only verbs that Stoker knows.
    `shown`: the certainty that people see.
    """
    asks = dict.fromkeys([f"ask:{verb}" for verb in verbs[:2]])
    return Task(name, ClassSource.LEARNED, (*notes, *asks, f"sure:{int(100 * shown)}%"), sure=sure, risk=risk)


def _is_alarming(seen: _Seen) -> bool:
    """Whether the text of a request is likely to be high-risk work, if its words say nothing of the risk: it may be
    broad, or is very likely to be.
    """
    if seen.alarming is None or (seen.asked.grade is Grade.HARMLESS and seen.asked.why not in _UNSURE):
        return False
    if seen.asked.grade is Grade.HARMLESS:
        return seen.risk >= CERTAIN
    return seen.asked.grade is Grade.UNREAD or seen.asked.why == MAY_BE_BROAD or seen.risk >= SURE_ALARM


def _may_lower(outline: Outline, found: Task, seen: _Seen) -> bool:
    """Whether a request takes away the risk that the conversation has: only in the person's own words, which were read
    in full, are in a language that was learned, and plainly ask for something harmless.
    """
    risk, around = seen.asked, outline.around_request(0)
    if risk.grade is not Grade.HARMLESS or not around.is_own or not seen.is_learned or _is_alarming(seen):
        return False
    if outline.is_cut and risk.why != "asks":
        return False
    if not outline.tools and outline.earlier:
        return False  # an agent without offered tools sends results of commands as the person's words
    if risk.why == "reports" and (found.back or found.name == UNKNOWN):
        return False  # "The file was edited." may be the harness's
    is_seen = seen.says is Says.OWN or risk.why in ("asks", "looks", "documents", "thanks")
    return is_seen and seen.says is not Says.COMMAND


_NOT_ASKED = Asked(Grade.OTHER)
_UNSURE = frozenset(("small", "adds", "mentions", "looks", "reports"))
"""Reasons why a request is harmless that do not stand against a text that is certainly high-risk work."""
_OF_RISK = {"plans": "planning"}
_WORK = frozenset((*CODING, "tool-use", "json-extract", "summarise", "vision", "long-context"))
"""Classes of which a short request that is not plain may be a part."""
_OWN_NAME = re.compile(r"^[^\w\n]*(?:[A-Za-z][A-Za-z0-9]{1,9}-\d{1,7}|#\d{1,7})\b", re.MULTILINE)
"""The number of a ticket at the beginning of a line: its own."""
_AS_WORDS = re.compile(r"[\W_]+")


def _kept(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Those at the beginning that say nothing of the class."""
    own = (at for at, one in enumerate(notes) if one != "unknown_class" and not one.startswith("earlier:"))
    return notes[: next(own, len(notes))]


def _unseen(notes: tuple[str, ...]) -> Task:
    return Task(UNKNOWN, ClassSource.DEFAULT, notes)


def _is_unseen(task: Task) -> bool:
    return task.name == UNKNOWN


def _parts_of(text: str) -> Iterator[str]:
    """The text in parts of whole lines, of about PART characters."""
    part = ""
    for line in filter(None, text.split("\n")):
        for at in range(0, len(line), 2 * PART):
            piece = line[at : at + 2 * PART]
            if part and len(part) + len(piece) > PART:
                yield part
                part = ""
            part = f"{part}\n{piece}" if part else piece
    if part.strip():
        yield part


def _riskier(found: Task | None, task: Task) -> Task:
    """The riskier task. `task` is high-risk work, and older. If both are, the newer one; certain if either is."""
    if found is None or found.name not in HIGH_RISK:
        return task
    return found if task.else_ else found._replace(else_="")


def _leans_on(task: Task, back: int, outline: Outline) -> bool:
    """Whether a request that only links to what came before asks for nothing by name, and something came before."""
    return back < len(outline.earlier) and not any(note.startswith("ask:") for note in task.notes)


def _may_lean(task: Task, text: str, back: int, outline: Outline) -> bool:
    """Whether a short request asks for nothing by name, and it is not plain what it is by itself ("even shorter")."""
    is_plain = task.name in HIGH_RISK or task.sure is None or task.sure >= PLAIN
    return not is_plain and len(text) <= MOST_CHARACTERS and _leans_on(task, back, outline)


def _signs(outline: Outline) -> frozenset[str]:
    uses_tools = outline.tools or outline.has_results or outline.forces_tool
    if not (uses_tools or outline.images or outline.is_long):
        return _NONE
    return _SIGNS_SEEN[bool(outline.images), outline.is_long, bool(uses_tools)]


_SIGNS_SEEN = {
    (images, is_long, uses_tools): frozenset(
        ["vision"] * images + ["long-context"] * is_long + ["tool-use"] * uses_tools
    )
    for images in (False, True)
    for is_long in (False, True)
    for uses_tools in (False, True)
}


def _form(outline: Outline, has_asks: bool, shapes: frozenset[str] = _NONE, words: int = 0) -> tuple[str, str] | None:
    if outline.forces_tool:
        return "tool-use", "forced"
    if outline.images:
        return "vision", f"images:{outline.images}"
    if outline.wants_json:
        return "json-extract", "wants_json"
    if has_asks or not shapes:
        return None
    bare = _SHOWN if words else (*_SHOWN, *_ALONE)
    return next(((name, f"shape:{shape}") for shape, name in bare if shape in shapes), None)


_SHOWN = (("diff", "review"), ("error", "code-edit"))
_ALONE = (("code", "code-edit"), ("fence", "code-edit"))


def _history(outline: Outline) -> tuple[str, str] | None:
    if outline.is_long:
        return "long-context", f"tokens:{outline.tokens}" if outline.tokens is not None else "long_by_size"
    return ("tool-use", "results") if outline.has_results else None
