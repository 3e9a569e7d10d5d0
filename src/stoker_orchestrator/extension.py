"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Answers written block by block and checked: [orchestrator.NAME].",
    commands=(
        Command("run", "stoker_orchestrator.commands.run:run", "Send PROMPT to an orchestrator."),
        Command(
            "orchestrator", "stoker_orchestrator.commands.orchestrator:app", "Requests written block by block; prompts."
        ),
        Command("eval validator", "stoker_orchestrator.commands.validator:validator", "Measure a model as validator."),
    ),
    warnings="stoker_orchestrator.warnings:warnings",
    server="stoker_orchestrator.server:build",
    tables=(Offer("orchestrator", "stoker_orchestrator.table:ORCHESTRATOR"),),
    pages="stoker_orchestrator.operations:OPERATIONS",
)
