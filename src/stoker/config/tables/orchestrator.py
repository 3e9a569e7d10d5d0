"""`[orchestrator.NAME]`: a worker that writes block by block, and what checks its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from stoker.config.tables import value_checks
from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Name, ServedName, SomeDuration, Text
from stoker.domain.orchestrator import Orchestrator, Policy, Unchecked

POLICIES = tuple(policy.value for policy in Policy)
UNCHECKED = tuple(one.value for one in Unchecked)
UncheckedWord = Annotated[
    str, BeforeValidator(value_checks.one_of(UNCHECKED)), Field(json_schema_extra={"enum": list(UNCHECKED)})
]
PolicyWord = Annotated[
    str, BeforeValidator(value_checks.one_of(POLICIES)), Field(json_schema_extra={"enum": list(POLICIES)})
]


class OrchestratorTable(Section):
    """A model name behind which a worker writes code block by block. Only blocks that pass reach the client."""

    worker: ServedName | None = setting(
        None, "Required. The serve, tier, alias or variant that writes; or `auto`: routing chooses by the class."
    )
    validator: Name | None = setting(
        None, "The serve or tier that judges each block after the other checks. Left out: no model judges."
    )
    checks: list[Text] = setting(
        [],
        "Commands that each block of code has to pass: `ruff check -` reads it on standard input, `pytest -q {file}` "
        "in a file. They run in a sandbox.",
    )
    unchecked: UncheckedWord = setting(
        "refuse",
        "What becomes of code in a language that no check understands, where neither `checks` nor a `validator` "
        "judges: `refuse` it, or `commit` it and say `unchecked`.",
    )
    check_names: bool = setting(True, "Whether imports and calls are looked up, so that invented ones are found.")
    python: Text | None = setting(
        None, "The interpreter whose packages count for `check_names`. Left out: any package is taken to exist."
    )
    retries: Annotated[int, Field(ge=0, le=20)] = setting(3, "How often a block that failed is written again.")
    policy: PolicyWord = setting(
        "by-class",
        "`block_by_block`, `simple` (the worker answers as usual, nothing is checked), or `by-class`: block by block "
        "for the classes that write code, simple for the others. The header `x-stoker-policy` overrides it.",
    )
    overlap: bool = setting(True, "Whether the next block is written while one is being checked.")
    worker_prompt: Text | None = setting(
        None, "File with the worker's instructions; it must contain `{marker}`. Left out: those that ship."
    )
    validator_prompt: Text | None = setting(
        None, "File with the validator's prompt; it must contain `{task}` and `{block}`. Left out: the one that ships."
    )
    project: Text | None = setting(
        None, "Directory in which the files that blocks name are written once they passed. Left out: none is written."
    )
    keep: SomeDuration = setting("168h", "How long scratchpads are kept.")
    block_timeout: SomeDuration = setting("5m", "The longest that the worker may take for one block.")
    check_timeout: SomeDuration = setting("60s", "The longest that one command of `checks` may run.")
    validator_timeout: SomeDuration = setting("60s", "The longest that the validator may take for one block.")


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
    return OrchestratorTable.show(
        orchestrator,
        policy=orchestrator.policy.value,
        unchecked=orchestrator.unchecked.value,
        validator=orchestrator.validator or None,
        python=orchestrator.python or None,
        project=orchestrator.project or None,
        worker_prompt=orchestrator.worker_prompt_file or None,
        validator_prompt=orchestrator.validator_prompt_file or None,
    )
