"""GATES, in reading order: from what the serve says about itself to what it does under load."""

from __future__ import annotations

from stoker.measure.gates.chunks import CHUNKS
from stoker.measure.gates.context import CONTEXT
from stoker.measure.gates.gate import Gate
from stoker.measure.gates.identity import IDENTITY
from stoker.measure.gates.image import IMAGE
from stoker.measure.gates.letters import LETTERS
from stoker.measure.gates.limits import MAX_TOKENS
from stoker.measure.gates.pace import PACE
from stoker.measure.gates.parts import PARTS
from stoker.measure.gates.repeat import REPEAT
from stoker.measure.gates.schema import SCHEMA
from stoker.measure.gates.steady import STEADY
from stoker.measure.gates.stream import STREAM
from stoker.measure.gates.template import TEMPLATE
from stoker.measure.gates.text import TEXT
from stoker.measure.gates.tools import TOOLS

GATES: tuple[Gate, ...] = (
    *IDENTITY, *TEMPLATE, *PARTS, *TEXT, *CONTEXT, *TOOLS, *SCHEMA, *STREAM, *MAX_TOKENS, *CHUNKS, *PACE, *STEADY,
    *REPEAT, *IMAGE, *LETTERS,
)  # fmt: skip
NAMES: tuple[str, ...] = tuple(gate.name for gate in GATES)
