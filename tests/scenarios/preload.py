"""What a run of `stoker` imports and builds; once, by the process that `preloaded` forks them from."""

from __future__ import annotations

import contextlib
import importlib
import io

import stoker.cli.main

for module in (
    "encodings.idna", "rich.console", "rich.table", "uvloop",
    "stoker.app.run", "stoker.cli.console.context_warnings", "stoker.cli.console.control", "stoker.cli.machine.ports",
    "stoker.config.build", "stoker.config.load", "stoker.fleet.memory.fit", "stoker.store.results",
    "stoker_edge.server", "stoker_lab.commands.warnings", "stoker_otel.server",
):  # fmt: skip
    importlib.import_module(module)

with contextlib.redirect_stdout(io.StringIO()):
    stoker.cli.main.run(["version"])  # builds the tree of commands
