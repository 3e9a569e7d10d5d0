"""CHECKS, in reading order: from what the serve says about itself to what it does under load."""

from __future__ import annotations

from stoker.measure.preflight.check import PreflightCheck
from stoker.measure.preflight.checks.chunks import CHUNKS
from stoker.measure.preflight.checks.context import CONTEXT
from stoker.measure.preflight.checks.determinism import DETERMINISM, STEADY
from stoker.measure.preflight.checks.embeddings import EMBEDDINGS
from stoker.measure.preflight.checks.identity import IDENTITY
from stoker.measure.preflight.checks.image import IMAGE
from stoker.measure.preflight.checks.limits import MAX_TOKENS
from stoker.measure.preflight.checks.logprobs import LOGPROBS
from stoker.measure.preflight.checks.pace import PACE
from stoker.measure.preflight.checks.parts import PARTS
from stoker.measure.preflight.checks.prefix import PREFIX
from stoker.measure.preflight.checks.repeat import REPEAT
from stoker.measure.preflight.checks.schema import SCHEMA
from stoker.measure.preflight.checks.stream import STREAM
from stoker.measure.preflight.checks.template import TEMPLATE
from stoker.measure.preflight.checks.text import TEXT
from stoker.measure.preflight.checks.tools import TOOLS
from stoker.measure.preflight.checks.unicode import LETTERS

CHECKS: tuple[PreflightCheck, ...] = (
    *IDENTITY, *TEMPLATE, *PARTS, *DETERMINISM, *TEXT, *CONTEXT, *TOOLS, *SCHEMA, *STREAM, *MAX_TOKENS, *LOGPROBS,
    *CHUNKS, *PACE, *STEADY, *PREFIX, *REPEAT, *IMAGE, *LETTERS, *EMBEDDINGS,
)  # fmt: skip
NAMES: tuple[str, ...] = tuple(check.name for check in CHECKS)
DIALECTS = (
    "all checks but embeddings ask in Chat Completions; over-context and tool-round-trip also ask in Messages: "
    "none sees a fault that only another dialect has"
)
"""What no check can see, whichever it is."""
