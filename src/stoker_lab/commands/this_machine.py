"""This machine, as a measurement from the command line sees it."""

from __future__ import annotations

import os
from functools import cache

import psutil

from stoker.cli.machine import discover
from stoker_lab.artifacts.machine import machine


@cache
def facts() -> dict[str, object]:
    """With its GPUs: a driver may be asked."""
    return machine([gpu.name + (f", {gpu.memory / 2**30:.0f} GiB" if gpu.memory else "") for gpu in discover.gpus()])


def load() -> float:
    """Processes that ran or wanted to, over the last minute."""
    return round(os.getloadavg()[0], 2)


def is_short_of_memory() -> bool:
    """Less than 3 % of main memory is left: more clients would make it swap."""
    now = psutil.virtual_memory()
    return bool(now.available < now.total * 0.03)
