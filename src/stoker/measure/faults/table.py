"""FAULTS by name."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.measure.faults.calls import CALLS
from stoker.measure.faults.fault import Fault
from stoker.measure.faults.pieces import PIECES
from stoker.measure.faults.texts import TEXTS
from stoker.measure.faults.wire import WIRE

NONE = Fault("none", "passes everything on", frozenset())
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in (*TEXTS, *CALLS, *WIRE, *PIECES)}
