"""A Mac's GPU computes in main memory: how much of it a model may have there. What macOS answers is scripted here, as
programs on PATH; a real Mac has not run this.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fleet.memory.headers import Header  # type: ignore[attr-defined]

from stoker.domain.serve import Serve, Tuning
from stoker.engines import masks
from stoker.fleet.memory.cards import look
from stoker.fleet.memory.devices import Apple, Device
from stoker.fleet.memory.fit import check
from stoker.fleet.memory.fit.estimate import FitAnswer
from stoker.fleet.memory.host import HostMemory
from stoker.system.memory import MainMemory, sysctl, wired_limit

GIB = 2**30
