"""An orchestrator: a model name behind which a worker writes, checks judge, and only what passed reaches the client."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from stoker.domain.access import Settings
from stoker.domain.kinds import FilePath, Name, ServedName, SomeDuration, Text, setting

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
    """A model name behind which a worker writes code block by block. Only blocks that pass reach the client."""

    name: str
    worker: Annotated[
        ServedName,
        setting("Required. The serve, tier, alias or variant that writes; or `auto`: routing chooses by the class."),
    ]
    validator: Annotated[
        Name,
        setting("The serve or tier that judges each block after the other checks. Left out: no model judges."),
    ] = ""
    checks: Annotated[
        tuple[Text, ...],
        setting(
            "Commands that each block of code has to pass: `ruff check -` reads it on standard input, `pytest -q "
            "{file}` in a file. They run in a sandbox."
        ),
    ] = ()
    unchecked: Annotated[
        Unchecked,
        setting(
            "What becomes of code in a language that no check understands, where neither `checks` nor a `validator` "
            "judges: `refuse` it, or `commit` it and say `unchecked`."
        ),
    ] = Unchecked.REFUSE
    check_names: Annotated[
        bool, setting("Whether imports and calls are looked up, so that invented ones are found.")
    ] = True
    python: Annotated[
        Text,
        setting("The interpreter whose packages count for `check_names`. Left out: any package is taken to exist."),
    ] = ""
    retries: Annotated[int, setting("How often a block that failed is written again.", ge=0, le=20)] = 3
    policy: Annotated[
        Policy,
        setting(
            "`block_by_block`, `simple` (the worker answers as usual, nothing is checked), or `by-class`: block by "
            "block for the classes that write code, simple for the others. The header `x-stoker-policy` overrides it."
        ),
    ] = Policy.BY_CLASS
    overlap: Annotated[bool, setting("Whether the next block is written while one is being checked.")] = True
    worker_prompt_file: Annotated[
        FilePath,
        setting(
            "File with the worker's instructions; it must contain `{marker}`. Left out: those that ship.",
            name="worker_prompt",
        ),
    ] = ""
    validator_prompt_file: Annotated[
        FilePath,
        setting(
            "File with the validator's prompt; it must contain `{task}` and `{block}`. Left out: the one that ships.",
            name="validator_prompt",
        ),
    ] = ""
    project: Annotated[
        FilePath,
        setting(
            "Directory in which the files that blocks name are written once they passed. Left out: none is written."
        ),
    ] = ""
    keep: Annotated[SomeDuration, setting("How long scratchpads are kept.")] = 604800.0
    block_timeout: Annotated[SomeDuration, setting("The longest that the worker may take for one block.")] = 300.0
    check_timeout: Annotated[SomeDuration, setting("The longest that one command of `checks` may run.")] = 60.0
    validator_timeout: Annotated[SomeDuration, setting("The longest that the validator may take for one block.")] = 60.0
    worker_prompt: str = ""
    """Text with `{marker}`; empty: the one that ships."""
    validator_prompt: str = ""
    """Text with `{task}` and `{block}`; empty: the one that ships."""


def orchestrators_of(settings: Settings) -> tuple[Orchestrator, ...]:
    """Those that the file has."""
    found = settings.extensions.get("orchestrator")
    return tuple(found.values()) if isinstance(found, dict) else ()
