"""CHECKS, in reading order: from what the serve says about itself to what it does under load."""

from __future__ import annotations

from stoker_lab.preflight.check import PreflightCheck
from stoker_lab.preflight.checks.chunks import CHUNKS
from stoker_lab.preflight.checks.context import CONTEXT
from stoker_lab.preflight.checks.determinism import DETERMINISM, STEADY
from stoker_lab.preflight.checks.embeddings import EMBEDDINGS
from stoker_lab.preflight.checks.identity import IDENTITY
from stoker_lab.preflight.checks.image import IMAGE
from stoker_lab.preflight.checks.limits import MAX_TOKENS
from stoker_lab.preflight.checks.logprobs import LOGPROBS
from stoker_lab.preflight.checks.pace import PACE
from stoker_lab.preflight.checks.parts import PARTS
from stoker_lab.preflight.checks.prefix import PREFIX
from stoker_lab.preflight.checks.repeat import REPEAT
from stoker_lab.preflight.checks.schema import SCHEMA
from stoker_lab.preflight.checks.stream import STREAM
from stoker_lab.preflight.checks.template import TEMPLATE
from stoker_lab.preflight.checks.text import TEXT
from stoker_lab.preflight.checks.tools import TOOLS
from stoker_lab.preflight.checks.unicode import LETTERS

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
