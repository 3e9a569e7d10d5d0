"""An orchestrator: a model name behind which a worker writes, checks judge, and only what passed reaches the client."""

from __future__ import annotations

from enum import StrEnum

import msgspec

PLACEHOLDERS = {"worker_prompt": ("{marker}",), "validator_prompt": ("{task}", "{block}")}
"""What an operator's own prompts have to contain."""


class Policy(StrEnum):
    """How an orchestrator answers."""

    BLOCK_BY_BLOCK = "block_by_block"
    """One function or class at a time; each block is checked before the client sees it."""
    SIMPLE = "simple"
    """The worker answers as it would answer any request; nothing is checked."""
    BY_CLASS = "by-class"
    """Block by block for the classes that write code, simple for the others."""


class CheckLayer(StrEnum):
    """The checks of a block, cheapest first. A block passes one before the next one begins."""

    STRUCTURE = "structure"
    """Does it parse?"""
    NAMES = "names"
    """Does what it imports and calls exist?"""
    COMMANDS = "commands"
    """Do the configured commands accept it?"""
    VALIDATOR = "validator"
    """Does the validator model accept it?"""


class Unchecked(StrEnum):
    """What becomes of a block of code that no check understands."""

    REFUSE = "refuse"
    COMMIT = "commit"


class Orchestrator(msgspec.Struct, frozen=True, kw_only=True):
    """One `[orchestrator.NAME]`. Times are seconds."""

    name: str
    worker: str
    """A serve, a tier, an alias, or `auto`: the class decides."""
    validator: str = ""
    """A serve or a tier; empty: no model judges."""
    checks: tuple[str, ...] = ()
    """Commands that read a block on standard input, or as `{file}`."""
    unchecked: Unchecked = Unchecked.REFUSE
    check_names: bool = True
    python: str = ""
    """The interpreter whose installed packages count; empty: the one that runs Stoker."""
    retries: int = 3
    """How often a failed block is written again."""
    policy: Policy = Policy.BY_CLASS
    overlap: bool = True
    """Whether the next block is written while one is being checked."""
    worker_prompt: str = ""
    """Text with `{marker}`; empty: the one that ships."""
    validator_prompt: str = ""
    """Text with `{task}` and `{block}`; empty: the one that ships."""
    worker_prompt_file: str = ""
    """Where the text is from, absolute; empty: it ships."""
    validator_prompt_file: str = ""
    project: str = ""
    """Directory that validated files are written to; empty: none."""
    keep: float = 7 * 86400.0
    """How long scratchpads are kept."""
    block_timeout: float = 300.0
    """The longest that the worker may write one block."""
    check_timeout: float = 60.0
    """The longest that one command may run."""
    validator_timeout: float = 60.0
