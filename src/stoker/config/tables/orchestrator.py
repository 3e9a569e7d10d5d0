"""`[orchestrator.NAME]`: a worker that writes block by block, and what checks its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from stoker.config.definition import show
from stoker.domain.kinds import Name, ServedName, SomeDuration, Text, setting
from stoker.domain.orchestrator import Orchestrator, Policy, Unchecked


class OrchestratorTable(msgspec.Struct, frozen=True):
    """A model name behind which a worker writes code block by block. Only blocks that pass reach the client."""

    worker: Annotated[
        ServedName | None,
        setting("Required. The serve, tier, alias or variant that writes; or `auto`: routing chooses by the class."),
    ] = None
    validator: Annotated[
        Name | None,
        setting("The serve or tier that judges each block after the other checks. Left out: no model judges."),
    ] = None
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
        Text | None,
        setting("The interpreter whose packages count for `check_names`. Left out: any package is taken to exist."),
    ] = None
    retries: Annotated[int, setting("How often a block that failed is written again.", ge=0, le=20)] = 3
    policy: Annotated[
        Policy,
        setting(
            "`block_by_block`, `simple` (the worker answers as usual, nothing is checked), or `by-class`: block by "
            "block for the classes that write code, simple for the others. The header `x-stoker-policy` overrides it."
        ),
    ] = Policy.BY_CLASS
    overlap: Annotated[bool, setting("Whether the next block is written while one is being checked.")] = True
    worker_prompt: Annotated[
        Text | None,
        setting("File with the worker's instructions; it must contain `{marker}`. Left out: those that ship."),
    ] = None
    validator_prompt: Annotated[
        Text | None,
        setting(
            "File with the validator's prompt; it must contain `{task}` and `{block}`. Left out: the one that ships."
        ),
    ] = None
    project: Annotated[
        Text | None,
        setting(
            "Directory in which the files that blocks name are written once they passed. Left out: none is written."
        ),
    ] = None
    keep: Annotated[SomeDuration, setting("How long scratchpads are kept.")] = 604800.0
    block_timeout: Annotated[SomeDuration, setting("The longest that the worker may take for one block.")] = 300.0
    check_timeout: Annotated[SomeDuration, setting("The longest that one command of `checks` may run.")] = 60.0
    validator_timeout: Annotated[SomeDuration, setting("The longest that the validator may take for one block.")] = 60.0


def build_orchestrators(
    tables: Mapping[str, OrchestratorTable],
    prompts: Mapping[tuple[str, str], str],
    paths: Mapping[tuple[str, str], str],
) -> tuple[Orchestrator, ...]:
    """`prompts`: the text of each prompt file, by orchestrator and key. `paths`: its absolute paths, by the same."""
    return tuple(
        Orchestrator(
            name=name,
            worker=table.worker or "",
            validator=table.validator or "",
            checks=tuple(table.checks),
            unchecked=Unchecked(table.unchecked),
            check_names=table.check_names,
            python=table.python or "",
            retries=table.retries,
            policy=Policy(table.policy),
            overlap=table.overlap,
            worker_prompt=prompts.get((name, "worker_prompt"), ""),
            validator_prompt=prompts.get((name, "validator_prompt"), ""),
            worker_prompt_file=paths.get((name, "worker_prompt"), ""),
            validator_prompt_file=paths.get((name, "validator_prompt"), ""),
            project=paths.get((name, "project"), ""),
            keep=table.keep,
            block_timeout=table.block_timeout,
            check_timeout=table.check_timeout,
            validator_timeout=table.validator_timeout,
        )
        for name, table in tables.items()
    )


def show_orchestrator(orchestrator: Orchestrator) -> dict[str, Any]:
    """One `[orchestrator.NAME]` in the form of the file."""
    return show(
        OrchestratorTable,
        orchestrator,
        validator=orchestrator.validator or None,
        python=orchestrator.python or None,
        project=orchestrator.project or None,
        worker_prompt=orchestrator.worker_prompt_file or None,
        validator_prompt=orchestrator.validator_prompt_file or None,
    )
