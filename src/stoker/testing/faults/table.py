"""FAULTS by name."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.testing.faults.answers import ANSWERS
from stoker.testing.faults.calls import CALLS
from stoker.testing.faults.fault import ServingFault
from stoker.testing.faults.pieces import PIECES
from stoker.testing.faults.texts import TEXTS
from stoker.testing.faults.vectors import VECTORS
from stoker.testing.faults.wire import WIRE

NONE = ServingFault("none", "passes everything on", frozenset())
FAULTS: Mapping[str, ServingFault] = {
    fault.name: fault for fault in (*TEXTS, *CALLS, *WIRE, *PIECES, *ANSWERS, *VECTORS)
}
