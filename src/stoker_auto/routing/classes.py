"""The task class of a request: declared by its caller, else found by words configured for a class
(`[router.class.NAME] words`), else by the classifier."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec

from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.routing import AUTO, RouterSettings
from stoker.domain.task import DEFAULT, UNKNOWN, ClassSource, Outline, Task
from stoker_auto.routing.classifier import classify

UNCOUNTED_FROM = 16
"""A prompt with this many bytes for each token of `long_context` is certainly long: it is not counted."""
UNKNOWN_CLASS = "unknown_class"
"""The note of a request whose caller declared a class that is not known."""
Classify = Callable[[Outline, str | None, Collection[str]], Task]


class Declaration(NamedTuple):
    """What a caller declares about the class of its request."""

    name: str | None = None
    """A known class; None: it declares none."""
    unknown: str = ""
    """The declared name that is not known; empty: there is none."""


class TaskClasses:
    """The classes of one configuration. A caller declares a class by the model name, else the header, else the body's
    metadata. Without a declaration the words configured for a class decide, then the classifier.
    """

    def __init__(self, settings: RouterSettings, classify: Classify = classify) -> None:
        self._settings = settings
        self._classify = classify
        self._words_by_class = [(one.name, _any_of(one.words)) for one in settings.classes if one.words]
        self._known = frozenset(settings.known)
        self._by_folded = {name.casefold(): name for name in reversed(settings.known)}
        self._names = settings.names

    # -- names that clients use ----------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Model names that ask Stoker to choose."""
        return tuple(self._names)

    def task_name(self, text: str) -> str | None:
        """The configured model name that a client means; None: it is not the name of a task. `auto` and
        `auto:CLASS` are found in any case and with blanks around; aliases have to be written exactly, like the names of
        serves.
        """
        if text in self._names:
            return text
        head, colon, rest = text.partition(":")
        if head.strip().lower() != AUTO:
            return None
        if not colon:
            return AUTO
        known = self.class_name(rest)
        return None if known is None else f"{AUTO}:{known}"

    def class_name(self, text: str) -> str | None:
        """The class that a client means, in any case and with blanks around; None: there is no such class."""
        name = text.strip()
        return name if name in self._known else self._by_folded.get(name.casefold())

    def unknown_class(self, model: str) -> ClientError:
        """The refusal of `auto:CLASS` if there is no such class."""
        name = model.partition(":")[2].strip()
        near = nearest(name, self._settings.known)
        hint = f"did you mean 'auto:{near}'?" if near else f"the classes are {', '.join(self._settings.known)}"
        return ClientError(f"there is no class '{name[:100]}'; {hint}", code="unknown_model", status=404, param="model")

    # -- the class of a request ----------------------------------------------------------------------------------------

    def declaration(self, model: str, header: str | None, metadata: str | None) -> Declaration:
        """The class that the caller declares, in this order. Unknown names are skipped; the first is reported."""
        given = [text for text in (header, metadata) if text is not None and text.strip()]
        found = [self.class_name(text) for text in given]
        unknown = next((text.strip() for text, name in zip(given, found, strict=True) if name is None), "")
        by_model = self._names.get(self.task_name(model) or "", "")
        return Declaration(by_model or next((name for name in found if name is not None), None), unknown)

    def classify_declared(self, outline: Outline, model: str, declared: str | None) -> Task:
        """The task of a request. `declared`: the class in its header or body."""
        return self.classify(outline, self.declaration(model, declared, None))

    def classify(self, outline: Outline, declaration: Declaration) -> Task:
        """If an unknown class was declared, the task's notes say so."""
        task = self._find(outline, declaration.name)
        return task._replace(notes=(UNKNOWN_CLASS, *task.notes)) if declaration.unknown else task

    def _find(self, outline: Outline, declared: str | None) -> Task:
        known = self._known
        if declared in known or not self._words_by_class:
            return self._classify(outline, declared, known)
        if name := self._own_class(outline.text):
            task = self._classify(outline, declared, known) if outline.earlier else None
            if task is None or not task.back or task.name not in (*self._settings.high_risk, UNKNOWN):
                return Task(name, ClassSource.RULES, ("own_word",))
            return task
        task = self._classify(outline, declared, known)
        if task.back and (name := self._own_class(outline.request(task.back))):
            return Task(name, ClassSource.RULES, ("own_word", f"earlier:{task.back}"), back=task.back)
        return task

    def _own_class(self, text: str) -> str:
        """The first class of the operator whose words occur in a text; empty: none."""
        return next((name for name, words in self._words_by_class if words.search(text)), "")

    def required_for(self, task: Task, outline: Outline) -> tuple[str, ...]:
        """The classes that a tier must be good enough at to serve this task. For a task whose class is unknown: every
        high-risk class if an offered tool can change files, or may, else `chat`.
        """
        if task.name != UNKNOWN:
            return (task.name,)
        return (self._settings.high_risk if outline.may_change_files else ()) or (DEFAULT,)

    # -- long prompts --------------------------------------------------------------------------------------------------

    def may_be_long(self, outline: Outline) -> bool:
        """Whether the prompt may be long, so that its tokens have to be counted. It has at most as many as bytes."""
        return outline.tokens is None and outline.size >= self._settings.long_context

    def needs_count(self, outline: Outline) -> bool:
        """Whether counting is worth an engine's time."""
        return outline.size < UNCOUNTED_FROM * self._settings.long_context

    def with_tokens(self, outline: Outline, tokens: int | None) -> Outline:
        """The outline with its token count. None: nothing could count them, so the size decides."""
        outline = msgspec.structs.replace(outline, tokens=tokens)
        return msgspec.structs.replace(outline, is_long=outline.estimated_tokens >= self._settings.long_context)


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in words)})\b", re.IGNORECASE)
