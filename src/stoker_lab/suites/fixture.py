"""A fixture: one question of a task class and how its answer is checked. Read from JSONL, one fixture a line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.task import CLASSES
from stoker_lab.canary import questions
from stoker_lab.suites.check_kinds import AllChecks, FixtureCheck, NumberCheck

ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
"""Characters that are allowed in ids."""
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
ASSISTANT, TINY = "assistant", "tiny"
"""Wordings: what any assistant understands, and what the models in the package were taught."""
DATA = files("stoker_lab.suites") / "data"


class FixtureError(StokerError):
    """A fixture that cannot be used. The message names the file, the line and the reason."""

    status = 422
    code = "bad_fixture"


class Fixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`request`: the body of a chat completion, without `model` and `stream`."""

    id: str
    task_class: str
    request: dict[str, Any]
    check: FixtureCheck

    @property
    def digest(self) -> str:
        """Of its content: a grade belongs to one wording of a fixture."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


_decoder = msgspec.json.Decoder(Fixture)


def shipped_fixtures(wording: str = ASSISTANT) -> list[Fixture]:
    """The ones in the package, all classes. In the wording `tiny`, classes that it has replace the assistant's."""
    found = by_class(_read(DATA, CLASSES))
    if wording == TINY:
        found |= by_class(_read(DATA / TINY, CLASSES))
    return [one for own in found.values() for one in own]


def all_shipped_fixtures() -> list[Fixture]:
    """The ones in the package, in both wordings."""
    return [*_read(DATA, CLASSES), *_read(DATA / TINY, CLASSES)]


def wording_for(model: str) -> str:
    """For a model, by that part of its fingerprint. The demo models know few (docs/reference/demo-models.md)."""
    return TINY if model in questions.TINY else ASSISTANT


def read_fixtures(directory: Path, classes: Collection[str] = CLASSES) -> list[Fixture]:
    """Those of every `*.jsonl` in a directory. `classes`: the names of task classes that there are.

    Raises FixtureError: no such directory, no fixture in it, one that cannot be read, an id twice.
    """
    if not directory.is_dir():
        raise FixtureError(f"{directory} is not a directory: fixtures are read from its *.jsonl files")
    return _read(directory, classes)


def digest(fixtures: Iterable[Fixture]) -> str:
    """Of a set, whatever its order: sha256 over the sorted ids and contents."""
    listed = sorted((one.id, one.digest) for one in fixtures)
    return hashlib.sha256(msgspec.json.encode(listed)).hexdigest()[:16]


def by_class(fixtures: Iterable[Fixture]) -> dict[str, list[Fixture]]:
    """In the order in which classes are listed everywhere; fixtures of a class in theirs."""
    found: dict[str, list[Fixture]] = {}
    for one in fixtures:
        found.setdefault(one.task_class, []).append(one)
    known = [name for name in CLASSES if name in found]
    return {name: found[name] for name in [*known, *sorted(found.keys() - set(known))]}


def sizes(fixtures: Iterable[Fixture]) -> dict[str, int]:
    """How many there are of each class."""
    return {name: len(own) for name, own in by_class(fixtures).items()}


def spread(fixtures: Iterable[Fixture], count: int) -> list[Fixture]:
    """`count` of each class, evenly over its file, since a file may go from easy to hard; always the same ones."""
    found = []
    for own in by_class(fixtures).values():
        wanted = min(count, len(own))
        found += [own[place * len(own) // wanted] for place in range(wanted)]
    return found


def _read(directory: Traversable, classes: Collection[str]) -> list[Fixture]:
    found: list[Fixture] = []
    places: dict[str, str] = {}
    paths = sorted((path for path in directory.iterdir() if path.name.endswith(".jsonl")), key=lambda path: path.name)
    for path in paths:
        for number, line in enumerate(_lines(path), 1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            one = parse_fixture(line, place, classes)
            if one.id in places:
                raise FixtureError(f"{place}: the id '{one.id}' is taken by {places[one.id]}")
            places[one.id] = place
            found.append(one)
    if not found:
        raise FixtureError(f"{directory} has no fixtures: they are lines of *.jsonl files")
    return found


def _lines(path: Traversable) -> Sequence[bytes]:
    try:
        return path.read_bytes().split(b"\n")
    except OSError as error:
        raise FixtureError(f"{path} cannot be read: {error.strerror}") from error


def parse_fixture(line: bytes, place: str, classes: Collection[str] = CLASSES) -> Fixture:
    """One line. Raises FixtureError, with `place` in front."""
    try:
        line.decode()
        one = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FixtureError(f"{place}: {str(error)[:200]}") from None
    if wrong := _wrong(one, classes):
        raise FixtureError(f"{place}: {wrong}")
    return one


def _wrong(one: Fixture, classes: Collection[str]) -> str:
    """1. its id  2. its class  3. turns  4. what the asker adds  5. a value that is no number."""
    if not one.id or not ALPHABET.issuperset(one.id):  # 1
        return "`id` must consist of letters, digits, dots and dashes"
    if one.task_class not in classes:  # 2
        return f"`task_class` '{one.task_class}' is unknown; known classes: {', '.join(classes)}"
    turns = one.request.get("messages")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) and "role" in turn for turn in turns):
        return "`request.messages` must hold turns, each with a role"  # 3
    for name in ("model", "stream"):  # 4
        if name in one.request:
            return f"`request.{name}` must not be set by a fixture"
    checks = one.check.checks if isinstance(one.check, AllChecks) else [one.check]
    for check in checks:  # 5
        if isinstance(check, NumberCheck) and not DECIMAL.fullmatch(check.value):
            return f"`check.value` '{check.value}' is not a number"
    return ""
