"""FAULTS by name."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.testing.faults.calls import CALLS
from stoker.testing.faults.fault import Fault
from stoker.testing.faults.pieces import PIECES
from stoker.testing.faults.texts import TEXTS
from stoker.testing.faults.wire import WIRE

NONE = Fault("none", "passes everything on", frozenset())
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in (*TEXTS, *CALLS, *WIRE, *PIECES)}
