"""Faults of embeddings. All change the answer alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from stoker_lab.testing.faults.fault import Document, ServingFault

PATH = "/v1/embeddings"
Vector = list[float]


def _changed(change: Callable[[list[Document]], None]) -> Callable[[str, Any], Any]:
    """A hook that changes the entries of an answer."""

    def page(path: str, document: Any) -> Any:
        if path.endswith(PATH) and isinstance(document, dict) and isinstance(document.get("data"), list):
            change(document["data"])
        return document

    return page


def _each(change: Callable[[Vector], Vector]) -> Callable[[str, Any], Any]:
    def entries(found: list[Document]) -> None:
        for entry in found:
            entry["embedding"] = change(entry["embedding"])

    return _changed(entries)


def _unit(vector: Sequence[float]) -> Vector:
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def _reversed(found: list[Document]) -> None:
    vectors = [entry["embedding"] for entry in found]
    for entry, vector in zip(found, reversed(vectors), strict=True):
        entry["embedding"] = vector


def _uneven(found: list[Document]) -> None:
    for entry in found[1::2]:
        entry["embedding"] = entry["embedding"][:-1]


def _mixed(vector: Vector) -> Vector:
    """The same numbers in another order, which follows from them."""
    random.Random(str([round(value, 1) for value in vector[:16]])).shuffle(vector)
    return vector


def _noisy(vector: Vector) -> Vector:
    size = 0.2 / math.sqrt(len(vector))
    return _unit([value + random.gauss(0.0, size) for value in vector])


def _constant(vector: Vector) -> Vector:
    return [1.0, *[0.0] * (len(vector) - 1)]


def _first_only(found: list[Document]) -> None:
    del found[1:]


_EMBEDDINGS = frozenset(("embeddings",))
VECTORS = tuple(
    ServingFault(name, description, _EMBEDDINGS, page=page, needs_embeddings=True)
    for name, description, page in (
        ("vectors-unnormalised", "vectors of length 3", _each(lambda vector: [3 * value for value in vector])),
        ("vectors-uneven", "every second vector of a batch is shorter", _changed(_uneven)),
        ("vectors-reversed", "the vectors of a batch come in reverse order", _changed(_reversed)),
        ("vectors-noisy", "the same text gets another vector each time", _each(_noisy)),
        ("vectors-constant", "all texts have the same vector", _each(_constant)),
        ("vectors-mixed", "the numbers of each vector are mixed up", _each(_mixed)),
        ("vectors-lost", "only the first vector of a batch comes", _changed(_first_only)),
    )
)
