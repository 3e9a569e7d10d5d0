"""Fixtures for a paired set: drawn by the generators of the shipped suites, with other seeds.

None is in the shipped suites and none is there twice, whatever its id: told by a digest of question and check.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from stoker_lab.suites import fixture
from stoker_lab.suites.fixture import Fixture

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SUITES = Path(str(files("stoker_lab.suites"))) / "data" / fixture.TINY
ROUNDS = 200
"""Draws of a whole suite, after which a class that has no more different questions is given up."""


def content(one: Fixture) -> str:
    """Of what is asked and how it is checked; not of the id."""
    return hashlib.sha256(msgspec.json.encode([one.request, one.check], order="sorted")).hexdigest()


def shipped() -> list[Fixture]:
    """Those of the wording `tiny`, which the profiles of spark and ember are made of."""
    return fixture.read_fixtures(SUITES)


def paired(n: int, seed: int, besides: Iterable[Fixture]) -> list[Fixture]:
    """At least `n`, as many of each class. Raises ValueError if a class has not so many that are not in `besides`."""
    makers = _makers()
    taken = {content(one) for one in besides}
    each = -(-n // len(makers))
    return [one for name in makers for one in _of_class(name, makers[name], each, seed, taken)]


def _of_class(name: str, make: Any, count: int, seed: int, taken: set[str]) -> list[Fixture]:
    dice = importlib.import_module("fixtures.dice").Dice
    found: list[Fixture] = []
    for turn in range(ROUNDS):
        for request, check in make(dice(f"paired {seed} {name} {turn}")):
            one = _built(f"paired-{name}-{len(found) + 1:04}", name, request, check)
            if (mark := content(one)) not in taken:
                taken.add(mark)
                found.append(one)
            if len(found) == count:
                return found
    raise ValueError(f"{name} has only {len(found)} different questions, {count} are wanted")


def _built(id: str, task_class: str, request: dict[str, Any], check: dict[str, Any]) -> Fixture:
    line = msgspec.json.encode({"id": id, "task_class": task_class, "request": request, "check": check})
    return fixture.parse_fixture(line, id)


def _makers() -> dict[str, Any]:
    """The generators, by class. They lie beside the package: with the scripts, and in `training`."""
    for path in (str(SCRIPTS), str(SCRIPTS.parent)):
        if path not in sys.path:
            sys.path.insert(0, path)
    found: dict[str, Any] = importlib.import_module("fixtures.tiny").MAKERS
    return found
