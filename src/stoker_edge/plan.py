"""The order of a route sync as one table. Pure.

A pass starts at DISCOVER. If an earlier run was interrupted while it switched, a pass that starts at RESUME comes
before. What was changed is proved at VERIFY, or undone from RESTORE on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from stoker.domain.errors import OurBug


class SyncStep(StrEnum):
    """One step. Nothing that the ingress reads is changed before REPLACE."""

    RESUME = "resume"
    """Read the journal of the interrupted run. SAME: the old file is in place."""
    PROBE_INSTALLED = "probe installed"
    """Ask the worker to which the file in place points."""
    DISCOVER = "discover"
    PROBE = "probe"
    """Ask every discovered address for its health and its models; exactly one has to prove itself."""
    COMPARE = "compare"
    """Render the candidate. SAME: the file in place is equal."""
    GENERATE = "generate"
    """Ask the worker directly for one streamed token."""
    VALIDATE = "validate"
    """Let the ingress validate a copy of its configuration that includes the candidate."""
    REPLACE = "replace"
    """Write the journal, then replace the file."""
    VALIDATE_IN_PLACE = "validate in place"
    RELOAD = "reload"
    VERIFY = "verify"
    """Ask through the public routes: TLS, the exact id, one streamed token."""
    COMMIT = "commit"
    """Remove the journal: the switch is done."""
    RESTORE = "restore"
    """Put the old file back."""
    RELOAD_OLD = "reload old"
    VERIFY_OLD = "verify old"
    ABANDON = "abandon"
    """Remove the journal: the switch is undone."""
    DISCARD = "discard"
    """Remove a journal that does not fit the file in place: somebody else has changed it since."""


class StepOutcome(StrEnum):
    OK = "ok"
    SAME = "same"
    FAILED = "failed"


class SyncEnd(StrEnum):
    """How a pass ended."""

    UNCHANGED = "unchanged"
    SWITCHED = "switched"
    REFUSED = "refused"
    """Nothing was changed."""
    ROLLED_BACK = "rolled back"
    """The old file is back, and the ingress has reloaded it."""
    PREVIEWED = "would switch"
    """A dry run: it ended before the first change."""
    STUCK = "stuck"
    """The old file could not be restored or reloaded. The journal stays, and the next run tries again."""


_S, _E = SyncStep, SyncEnd
_OK, _SAME, _FAILED = StepOutcome.OK, StepOutcome.SAME, StepOutcome.FAILED
TABLE: Mapping[tuple[SyncStep, StepOutcome], SyncStep | SyncEnd] = MappingProxyType(
    {
        (_S.RESUME, _OK): _S.PROBE_INSTALLED,
        (_S.RESUME, _SAME): _S.RELOAD_OLD,
        (_S.RESUME, _FAILED): _S.DISCARD,
        (_S.PROBE_INSTALLED, _OK): _S.VALIDATE_IN_PLACE,
        (_S.PROBE_INSTALLED, _FAILED): _S.RESTORE,
        (_S.DISCOVER, _OK): _S.PROBE,
        (_S.DISCOVER, _FAILED): _E.REFUSED,
        (_S.PROBE, _OK): _S.COMPARE,
        (_S.PROBE, _FAILED): _E.REFUSED,
        (_S.COMPARE, _OK): _S.GENERATE,
        (_S.COMPARE, _SAME): _E.UNCHANGED,
        (_S.COMPARE, _FAILED): _E.REFUSED,
        (_S.GENERATE, _OK): _S.VALIDATE,
        (_S.GENERATE, _FAILED): _E.REFUSED,
        (_S.VALIDATE, _OK): _S.REPLACE,
        (_S.VALIDATE, _FAILED): _E.REFUSED,
        (_S.REPLACE, _OK): _S.VALIDATE_IN_PLACE,
        (_S.REPLACE, _FAILED): _S.RESTORE,
        (_S.VALIDATE_IN_PLACE, _OK): _S.RELOAD,
        (_S.VALIDATE_IN_PLACE, _FAILED): _S.RESTORE,
        (_S.RELOAD, _OK): _S.VERIFY,
        (_S.RELOAD, _FAILED): _S.RESTORE,
        (_S.VERIFY, _OK): _S.COMMIT,
        (_S.VERIFY, _FAILED): _S.RESTORE,
        (_S.COMMIT, _OK): _E.SWITCHED,
        (_S.COMMIT, _FAILED): _E.SWITCHED,  # the next run verifies once more
        (_S.RESTORE, _OK): _S.RELOAD_OLD,
        (_S.RESTORE, _FAILED): _E.STUCK,
        (_S.RELOAD_OLD, _OK): _S.VERIFY_OLD,
        (_S.RELOAD_OLD, _FAILED): _E.STUCK,
        (_S.VERIFY_OLD, _OK): _S.ABANDON,
        (_S.VERIFY_OLD, _FAILED): _S.ABANDON,  # often the old worker is gone: that is why a switch was tried
        (_S.ABANDON, _OK): _E.ROLLED_BACK,
        (_S.ABANDON, _FAILED): _E.ROLLED_BACK,
        (_S.DISCARD, _OK): _E.REFUSED,
        (_S.DISCARD, _FAILED): _E.STUCK,
    }
)


def next_step(step: SyncStep, outcome: StepOutcome) -> SyncStep | SyncEnd:
    """What follows. Raises OurBug for an outcome that the step cannot have."""
    try:
        return TABLE[step, outcome]
    except KeyError:
        raise OurBug(f"route-sync: step {step} cannot end with {outcome}") from None


def is_success(end: SyncEnd) -> bool:
    return end in (SyncEnd.UNCHANGED, SyncEnd.SWITCHED, SyncEnd.PREVIEWED)
