"""Does a request start another task in a conversation whose task is high-risk work? Pure.

| the request                                                    | starts another task                              |
|----------------------------------------------------------------|--------------------------------------------------|
| may be high-risk itself (probability 0.05)                     | no                                               |
| speaks of files, code, tests or changes, or shows some         | no                                               |
| a poem, a sum, a puzzle, a translation                         | with 8 different words, if that is 0.6 sure      |
| a summary, fields out of a text, talk, code                    | with 16, if that is 0.8 sure, and no tool that   |
|                                                                | is offered can change files                      |
| anything else                                                  | no                                               |

When in doubt, it belongs to the task before it: a false alarm costs less than a missed high-risk request.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.decide.asks import Reading
from stoker.request.decide.verbs import words

MAY_BE_RISKY = 0.05
APART = ("creative", "math-short", "reasoning", "multilingual")
"""Far from work on code."""
NEAR = ("summarise", "json-extract", "chat", "code-write", "code-edit", "review")
"""Classes that also occur as a step of an agent's work."""
WORDS, SURE = 8, 0.6
NEAR_WORDS, NEAR_SURE = 16, 0.8
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


def is_of_work(reading: Reading) -> bool:
    """Whether the text mentions files, code or changes, or shows some."""
    return bool(reading.shapes) or reading.paths > 0 or not OF_WORK.isdisjoint(reading.words)


def starts_task(own: SingleRequest, changes_files: bool) -> bool:
    if own.risk >= MAY_BE_RISKY:
        return False
    if own.name in APART:
        return own.words >= WORDS and own.sure >= SURE and not own.is_of_work
    if own.name not in NEAR or changes_files:
        return False
    return own.words >= NEAR_WORDS and own.sure >= NEAR_SURE and not (own.is_of_work and own.name == "chat")
