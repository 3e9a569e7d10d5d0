"""FAULTS by name."""

from __future__ import annotations

from collections.abc import Mapping

from stoker_lab.testing.faults.answers import ANSWERS
from stoker_lab.testing.faults.calls import CALLS
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.pieces import PIECES
from stoker_lab.testing.faults.texts import TEXTS
from stoker_lab.testing.faults.vectors import VECTORS
from stoker_lab.testing.faults.wire import WIRE

NONE = ServingFault("none", "passes everything on", frozenset())
FAULTS: Mapping[str, ServingFault] = {
    fault.name: fault for fault in (*TEXTS, *CALLS, *WIRE, *PIECES, *ANSWERS, *VECTORS)
}
