"""Does a request start another task in a conversation whose task is high-risk work, or unknown? Pure.

| the request                                     | no tool can change files      | a tool can change files            |
|-------------------------------------------------|-------------------------------|------------------------------------|
| may be high-risk itself (probability 0.05)      | no                            | no                                 |
| says that it is a new task ("new task: ...")    | as below                      | TASK: with 4 words, if 0.6 sure    |
| speaks of files, code, tests or changes         | no (but a new summary, code)  | no                                 |
| a poem, a sum, a puzzle, a translation          | TASK: with 8 different words, | ASIDE: with 8, if 0.6 sure         |
|                                                 | if that is 0.6 sure           |                                    |
| a summary, fields out of a text, talk, code     | TASK: with 16, if 0.8 sure    | no                                 |
| anything else                                   | no                            | no                                 |

An aside is served by itself and ends nothing: what continues after it continues the task before it.
When in doubt, it belongs to the task before it: a false alarm costs less than a missed high-risk request.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from stoker_auto.classify.asks import Reading
from stoker_auto.classify.verbs import words

MAY_BE_RISKY = 0.05
APART = ("creative", "math-short", "reasoning", "multilingual")
"""Far from work on code."""
NEAR = ("summarise", "json-extract", "chat", "code-write", "code-edit", "review")
"""Classes that also occur as a step of an agent's work."""
WORDS, SURE = 8, 0.6
NEAR_WORDS, NEAR_SURE = 16, 0.8
ANEW_WORDS = 4
ANEW = re.compile(
    r"\W{0,8}(?:(?:new|another|different|separate|unrelated) (?:task|topic|thing|question|request)"
    r"|unrelated(?: to \w+)?"
    r"|neue (?:aufgabe|frage)|andere(?:s)? (?:aufgabe|thema)|neues thema|etwas anderes"
    r"|nueva (?:tarea|pregunta)|otra (?:tarea|cosa|pregunta)|otro tema|nouvelle (?:tâche|question)"
    r"|autre (?:tâche|chose)"
    r"|autre sujet|nuovo compito|altra cosa|nova tarefa|outra coisa|новая задача|другая задача|другой вопрос"
    r"|新任务|新的任务|另一个任务|另外一件事|换个话题|新しいタスク|別のタスク|別件|새 작업|다른 작업"
    r"|مهمة جديدة|مهمة أخرى|سؤال آخر)"
    r"\s{0,4}[:：,、.，。!\n—-]",
    re.IGNORECASE,
)
"""How people say that what follows is a task of its own."""
OF_WORK = words(
    "file files folder folders module modules package packages import imports code codebase repo repository "
    "branch commit commits test tests build function functions class classes method methods variable variables "
    "callers api endpoint change changes changed rename renamed renaming refactor refactoring migration migrate "
    "plan step steps phase milestone remaining rest above earlier previous datei dateien ordner modul umbenennen "
    "änderung änderungen schritt fichier fichiers dossier renommer changement changements étape archivo archivos "
    "carpeta módulo módulos cambio cambios paso "
)
"""Words that most likely belong to the current task."""


class SingleRequest(NamedTuple):
    """The classification of one request by itself."""

    name: str
    sure: float
    risk: float
    words: int
    is_of_work: bool
    is_anew: bool = False
    """It begins by saying that it is a new task."""


def is_of_work(reading: Reading) -> bool:
    """Whether the text mentions files, code or changes, or shows some."""
    return bool(reading.shapes) or reading.paths > 0 or not OF_WORK.isdisjoint(reading.words)


def starts_anew(text: str) -> bool:
    """Whether the text begins by saying that it is a new task."""
    return ANEW.match(text) is not None


class Starts(Enum):
    NOTHING = "nothing"
    """It belongs to the task before it."""
    ASIDE = "aside"
    """It is served by itself, and the task before it goes on afterwards."""
    TASK = "task"
    """What came before it no longer counts."""


def starts(own: SingleRequest, changes_files: bool) -> Starts:
    if own.risk >= MAY_BE_RISKY:
        return Starts.NOTHING
    if changes_files and own.is_anew and own.words >= ANEW_WORDS and own.sure >= SURE:
        return Starts.TASK
    if own.name in APART:
        if own.words < WORDS or own.sure < SURE or own.is_of_work:
            return Starts.NOTHING
        return Starts.ASIDE if changes_files else Starts.TASK
    if own.name not in NEAR or changes_files:
        return Starts.NOTHING
    is_plain = own.words >= NEAR_WORDS and own.sure >= NEAR_SURE
    return Starts.TASK if is_plain and not (own.is_of_work and own.name == "chat") else Starts.NOTHING
