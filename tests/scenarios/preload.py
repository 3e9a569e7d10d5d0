"""What a run of `stoker` imports and builds; once, by the process that `preloaded` forks them from."""

from __future__ import annotations

import contextlib
import io

import stoker.app.run
import stoker.cli.console.control
import stoker.cli.main
import stoker.config.build
import stoker.config.load
import stoker.store.results

with contextlib.redirect_stdout(io.StringIO()):
    stoker.cli.main.run(["version"])  # builds the tree of commands
