"""Prompts that are put together: short requests (tests/data/tasks/requests.txt) and what people paste beside them.

People write a few words and paste the rest, before or after it; the authors of the training set wrote whole sentences
more often than not. So each request about something given is joined with code, errors and texts of the training set,
and some requests are put into the middle of a long text. The same prompts come out each time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from stoker.domain.task import LONG, Outline
from stoker_auto.classifier.labelled_prompts import LabelledPrompt

JOINED = 4
"""Prompts that are made of one request about something given."""
MISSPELT = 0.25
"""Of all that is made, the share in which a letter or two are wrong."""
BURIED = 1500
"""Prompts in which the request stands beside a long text or in its middle."""
_SHORTEST = 40
_FENCE = re.compile(r"```\w*\n(.*?)```", re.S)
_QUOTED = re.compile(r'["“„«](.{80,}?)["”“»]', re.S)
_FAULT = re.compile(r"Error|Exception|error:|failed|panic|FATAL|Traceback|ERR!")


def composed(requests: Path, given: Sequence[LabelledPrompt], seed: int = 13) -> list[LabelledPrompt]:
    """Raises ValueError for a heading of `requests` that is none."""
    chance = random.Random(seed)
    pools = _pools(given)
    found: list[LabelledPrompt] = []
    for task_class, material, outline, text in _requests(requests.read_text(encoding="utf-8")):
        pool = pools.get(material)
        texts = [text] if pool is None else [_joined(text, chance.choice(pool), chance) for _ in range(JOINED)]
        for one in texts:
            spelt = misspelt(one, chance) if chance.random() < MISSPELT else one
            found.append(LabelledPrompt(task_class, False, msgspec.structs.replace(outline, text=spelt)))
    return found + _buried(given, pools, chance)


def _buried(
    given: Sequence[LabelledPrompt], pools: dict[str, list[str]], chance: random.Random
) -> list[LabelledPrompt]:
    """Requests of the training set before, in the middle of or after a log, code or articles."""
    short = [
        row for row in given if 30 < len(row.outline.text) < 240 and row.task_class in _TOLD and not row.outline.systems
    ]
    found: list[LabelledPrompt] = []
    for row in chance.sample(short, min(BURIED, len(short))):
        kind = chance.choice(("log", "log", "code", "text"))
        before, after = (_material(kind, pools, chance)[: chance.randint(200, 2000)] for _ in range(2))
        places = ([before, row.outline.text, after], [row.outline.text, before], [before, row.outline.text])
        text = "\n\n".join(chance.choice(places))
        found.append(LabelledPrompt(row.task_class, row.hard, msgspec.structs.replace(row.outline, text=text)))
    return found


def _material(kind: str, pools: dict[str, list[str]], chance: random.Random) -> str:
    if kind == "log":
        form = chance.choice(_LOGS)
        return "\n".join(_log_line(form, chance) for _ in range(chance.randint(20, 60)))
    return "\n\n".join(chance.choice(pools[kind]) for _ in range(chance.randint(4, 8)))


def _log_line(form: str, chance: random.Random) -> str:
    number = chance.randrange(10_000)
    said = chance.choice(_SAID)
    return form.format(
        minute=number % 60, second=number // 7 % 60, number=number, level=chance.choice(_LEVELS), said=said
    )


_LEVELS = ("INFO", "INFO", "WARN", "ERROR", "DEBUG")
_LOGS = (
    "2026-03-11T10:{minute:02}:{second:02}Z {level} [{number}] {said} id={number}",
    "Mar 11 10:{minute:02}:{second:02} host app[{number}]: {said}",
    "{level}:root:{said} ({number} ms)",
    "[{number}.{second:06}] {said}",
    '{{"level":"{level}","n":{number},"msg":"{said}"}}',
)
_SAID = (
    "connection closed by peer", "cache miss for key", "started worker", "request finished with status 200",
    "retrying in 5 s",
    "could not resolve host", "job queued", "timeout after 30 s", "user logged in", "config reloaded",
    "disk usage at 81 %",
)  # fmt: skip
_TOLD = frozenset(
    (
        "planning",
        "multi-file-refactor",
        "code-write",
        "code-edit",
        "creative",
        "multilingual",
        "math-short",
        "reasoning",
    )
)
"""Classes of which a request is one wherever it stands."""


def misspelt(text: str, chance: random.Random) -> str:
    """With one letter in forty of its first two hundred dropped, doubled or mixed up with the next."""
    letters = list(text)
    places = [at for at, letter in enumerate(letters[:200]) if letter.isalpha() and letter.isascii()]
    for at in chance.sample(places, min(len(places), 1 + len(places) // 40)):
        letters[at] = chance.choice(("", letters[at] * 2, "".join(letters[at + 1 : at + 2]) + letters[at]))
    return "".join(letters)


def _requests(body: str) -> Iterator[tuple[str, str, Outline, str]]:
    """Class, what it is about, outward signs, text. A heading: `## LANGUAGE CLASS MATERIAL [SIGN]`."""
    heading: tuple[str, str, Outline] | None = None
    for line in body.splitlines():
        if line.startswith("## "):
            _, _, task_class, material, *sign = line.split()
            heading = task_class, material, _SIGNS[sign[0] if sign else ""]
        elif line.strip():
            if heading is None:
                raise ValueError("a request without a heading")
            yield *heading, line


_SIGNS = {"": Outline(), "tools": Outline(tools=5), "long": Outline(tokens=2 * LONG, is_long=True)}


def _pools(given: Iterable[LabelledPrompt]) -> dict[str, list[str]]:
    """What was pasted, by kind."""
    pools: dict[str, list[str]] = {"code": [], "error": [], "text": []}
    for row in given:
        text = row.outline.text
        _, line, rest = text.partition("\n")
        if row.task_class in ("code-edit", "review"):
            pasted = fenced[1] if (fenced := _FENCE.search(text)) else rest
            if line and len(pasted) >= _SHORTEST and re.search(r"[=(){};]", pasted):
                pools["error" if _FAULT.search(pasted) else "code"].append(pasted.strip("\n"))
        elif row.task_class in ("summarise", "json-extract"):
            quoted = _QUOTED.search(text)
            pasted = quoted[1] if quoted else rest
            if len(pasted) >= 2 * _SHORTEST:
                pools["text"].append(pasted.strip("\n"))
    return pools


def _joined(request: str, pasted: str, chance: random.Random) -> str:
    is_code = re.search(r"[=(){};]", pasted) is not None
    if is_code and chance.random() < 0.5:
        pasted = f"```\n{pasted}\n```"
    elif not is_code and chance.random() < 0.4:
        pasted = f'"{pasted}"'
    between = chance.choice((" ", "\n", "\n", "\n\n", "\n\n"))
    if chance.random() < 0.3:
        return f"{pasted}\n\n{request}"
    return f"{request}{':' if between == ' ' or chance.random() < 0.3 else ''}{between}{pasted}"
