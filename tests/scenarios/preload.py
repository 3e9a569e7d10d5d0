"""What runs of `stoker` import and build; once, by the process that `preloaded` forks them from.

That is the whole program with its extensions, so that no list has to follow where modules stand.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil

import stoker.cli.main

for module in ("encodings.idna", "rich.console", "rich.table", "uvloop"):
    importlib.import_module(module)
EXTENSIONS = ("stoker_auto", "stoker_devices", "stoker_edge", "stoker_lab", "stoker_orchestrator", "stoker_otel")
for package in ("stoker", *EXTENSIONS):
    with contextlib.suppress(ModuleNotFoundError):  # the core's own tests run without extensions
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                with contextlib.suppress(ModuleNotFoundError):  # what needs a library that is not here
                    importlib.import_module(found.name)

with contextlib.redirect_stdout(io.StringIO()):
    stoker.cli.main.run(["version"])
