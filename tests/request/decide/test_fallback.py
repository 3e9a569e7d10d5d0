"""Each failure of a serve has one cause for its fallback, or none."""

from __future__ import annotations

import pytest

from stoker.domain.errors import BEYOND_THE_DEVICE, CapacityError, ClientError, OurBug, StartFailed, StokerError
from stoker.domain.errors import UpstreamError as Upstream
from stoker.domain.serve import FallbackCause
from stoker.request.decide.fallback import fallback_cause

MEMORY, UNAVAILABLE, BUSY = FallbackCause.MEMORY, FallbackCause.UNAVAILABLE, FallbackCause.BUSY


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        *((StartFailed("x", code=code), MEMORY) for code in sorted(BEYOND_THE_DEVICE)),
        *(
            (CapacityError("x", code=code), BUSY)
            for code in ("queue_full", "no_place", "queue_timeout", "swap_timeout")
        ),
        (CapacityError("x", code="upstream_busy"), BUSY),
        (CapacityError("x", code="draining"), UNAVAILABLE),
        (CapacityError("x", code="fetching"), UNAVAILABLE),
        (CapacityError("x", code="cut"), None),
        (CapacityError("x", code="shutting_down"), None),
        (CapacityError("x", code="queue_bytes"), None),
        (StartFailed("x", code="parked"), UNAVAILABLE),
        (Upstream("x", code="unreachable"), UNAVAILABLE),
        (Upstream("x", code="upstream_refused", status=400), None),
        (ClientError("x", code="needs_force", status=403), UNAVAILABLE),
        (ClientError("x", code="context_length_exceeded"), None),
        (OurBug("x"), None),
    ],
)
def test_the_cause_of(error: StokerError, cause: FallbackCause | None) -> None:
    assert fallback_cause(error, error.code) is cause


def test_a_broken_connection_to_an_engine_that_ran_out_of_memory_is_of_memory() -> None:
    assert fallback_cause(Upstream("x", code="upstream_broke"), "out_of_memory") is MEMORY
