"""The classifier with the weights that ship with Stoker: read once, with the first request to be classified."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files

from stoker.domain.task import Outline, Task
from stoker.request.decide.classify import Classifier
from stoker.request.decide.packed import Packed, unpack
from stoker.request.decide.weights import Weights


def packed() -> Packed:
    return unpack(files("stoker.request.decide").joinpath("data/weights.bin").read_bytes())


@cache
def classifier() -> Classifier:
    """Takes about 15 ms the first time."""
    found = packed()
    return Classifier(Weights(found.classes, found.tables))


def classify(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    return classifier().classify(outline, declared, known)
