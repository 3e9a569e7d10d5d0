"""A few checks that every model passes if its engine and its settings are right, for `stoker add`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker_lab.commands import preflight, targets
from stoker_lab.commands.save_run import save_run
from stoker_lab.lock import hold_measurement_lock
from stoker_lab.preflight.run import PreflightOptions

if TYPE_CHECKING:
    from stoker.domain.run import Run

CHECKS = ("model", "max-tokens", "frames", "cancel")


def short_preflight(serve: str, config: str | None, state_dir: str | None = None) -> Run:
    """Asks a serve that is up, and keeps the result. Raises UsageError, such as for a key that this shell lacks, and
    StokerError `measuring`.
    """
    found = targets.find_target(serve, None, None, None, False, config, state_dir)
    state = found.results.parent
    with hold_measurement_lock(state, found.slot or found.serve, f"a preflight of {found.serve}"):
        run = preflight.measure(found, PreflightOptions(only=CHECKS))
    save_run(run, state)
    return run
