"""The classifier with the weights that ship with Stoker: read once, with the first request to be classified."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from stoker.domain.task import Outline, Task

if TYPE_CHECKING:
    from stoker_auto.classify.classify import Classifier
    from stoker_auto.classify.packed import Packed


def packed() -> Packed:
    from importlib.resources import files

    from stoker_auto.classify.packed import unpack

    return unpack(files("stoker_auto.classify").joinpath("data/weights.bin").read_bytes())


@cache
def classifier() -> Classifier:
    """Takes about 30 ms the first time: only where tasks are classified is the classifier in memory at all."""
    from stoker_auto.classify.classify import Classifier
    from stoker_auto.classify.weights import Weights

    found = packed()
    return Classifier(Weights(found.classes, found.tables))


def classify(outline: Outline, declared: str | None, known: Collection[str]) -> Task:
    return classifier().classify(outline, declared, known)
