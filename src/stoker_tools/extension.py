"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Runs web search and web pages for models: [tools.NAME].",
    commands=(Command("tools", "stoker_tools.commands:app", "Tools that Stoker runs for models."),),
    server="stoker_tools.server:build",
    pages="stoker_tools.operations:OPERATIONS",
    doctor="stoker_tools.doctor:findings",
    tables=(Offer("tools", "stoker_tools.tables:TOOLS"), Offer("tool_loop", "stoker_tools.tables:LOOP")),
)
