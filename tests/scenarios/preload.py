"""What a run of `stoker` imports and builds; once, by the process that `preloaded` forks them from."""

from __future__ import annotations

import contextlib
import io

import stoker.app.run
import stoker.cli.console.control
import stoker.cli.evaluate.running_serve
import stoker.cli.evaluate.save_run
import stoker.cli.main
import stoker.config.build
import stoker.config.load
import stoker.measure.canary.canary
import stoker.measure.canary.questions
import stoker.measure.gate.judgement
import stoker.measure.gate.measurements
import stoker.measure.load.presets
import stoker.measure.requests.client
import stoker.measure.suites.grading
import stoker.store.results

with contextlib.redirect_stdout(io.StringIO()):
    stoker.cli.main.run(["version"])  # builds the tree of commands
