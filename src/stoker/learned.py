"""The classifier with the weights that ship with Stoker: read once, when something is classified first."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files

import msgspec

from stoker.domain.task import Outline, Task
from stoker.request.decide.classify import Classifier
from stoker.request.decide.weights import Weights


class Document(msgspec.Struct):
    learned_from: str
    """Digest of the prompts."""
    classes: list[str]
    tables: dict[str, dict[str, str]]


def document() -> Document:
    body = files("stoker.request.decide").joinpath("data/weights.json").read_bytes()
    return msgspec.json.decode(body, type=Document)


@cache
def classifier() -> Classifier:
    """Some 70 ms, the first time."""
    found = document()
    return Classifier(Weights(found.classes, found.tables))


def classify(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    """See `Classifier.classify`."""
    return classifier().classify(outline, declared, known)
