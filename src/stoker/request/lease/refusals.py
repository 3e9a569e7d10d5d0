"""The errors for requests that cannot wait or have waited too long, and for serves that may not start or cannot; and
why streams are cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.errors import CANNOT_LOAD, CapacityError, ClientError, StartFailed, StokerError
from stoker.domain.figures import counted
from stoker.domain.serve import Serve
from stoker.request.lease.eviction import DoesNotFit
from stoker.request.lease.state import CannotLoad, PauseCause, ServeState, Swap
from stoker.request.lease.timing import measured_swap_time
from stoker.request.lease.waiter import Waiter


def shutting_down() -> StokerError:
    return CapacityError("Stoker is shutting down: send the request again later", code="shutting_down", retry_after=5.0)


def held(serve: Serve) -> StokerError:
    return CapacityError(
        f"serve '{serve.name}' takes no new requests: an operator is draining it", code="draining", retry_after=5.0
    )


SLOT_PAUSED = "slot_paused"


def slot_paused(state: ServeState) -> StokerError:
    slot = next(slot_state for slot_state in state.slot_states if slot_state.pauses)
    is_operator = PauseCause.OPERATOR in slot.pauses
    name = slot.slot.name
    where = f"serve '{state.name}'" if name.startswith("~") else f"slot '{name}' of serve '{state.name}'"
    command = "stoker resume" if name.startswith("~") else f"stoker resume {name}"
    end = f"`{command}` ends that" if is_operator else "it comes back"
    text = f"{where} is paused: {slot.pause_reason}; {end}"
    return CapacityError(text, code=SLOT_PAUSED, retry_after=60.0 if is_operator else 15.0)


def parked(serve: Serve, reason: str) -> StokerError:
    hint = f"`stoker slot switch {serve.name}` starts it again"
    return StartFailed(f"serve '{serve.name}' is parked: {reason}; {hint}", code="parked", retry_after=60.0)


def cannot_load(serve: Serve, problem: CannotLoad) -> StokerError:
    """No wait helps, so it has no time for the next attempt."""
    name = serve.replica_of or serve.name
    again = f"; it is tried again once its files change, or by `stoker serves up {name}`" if problem.failure else ""
    text = f"serve '{serve.name}' cannot load: {problem.reason}{again}"
    return StartFailed(text, code=CANNOT_LOAD, remedy=f"{problem.remedy}{again}")


QUEUE_FULL = "queue_full"


def queue_full(serve: Serve, waiting: int) -> StokerError:
    many = f"{counted(waiting, 'request')} wait{'s' if waiting == 1 else ''}"
    return CapacityError(f"the queue of serve '{serve.name}' is full: {many}", code=QUEUE_FULL)


def no_place(serve: Serve) -> StokerError:
    running = counted(serve.max_active, "request")
    return CapacityError(f"serve '{serve.name}' already runs {running}, its max_active", code="no_place")


def no_fit(fit: DoesNotFit) -> StokerError:
    return CapacityError(fit.reason, code="no_fit", retry_after=60.0)


def no_room(name: str, victims: Sequence[str]) -> StokerError:
    """A switch that may stop nothing cannot be done. `victims`: empty, if something starts or stops there."""
    what = f"{' and '.join(victims)} would have to stop for it" if victims else "something else starts or stops there"
    text = f"serve '{name}' does not fit beside what is loaded: {what}; `stoker slot switch {name}` loads it anyway"
    return CapacityError(text, code="no_room")


def unloaded(serve: Serve) -> StokerError:
    return CapacityError(f"serve '{serve.name}' was unloaded by an operator while it was loading", code="unloaded")


def removed(name: str) -> StokerError:
    return ClientError(
        f"serve '{name}' was removed from the configuration", code="unknown_model", status=404, param="model"
    )


def exited(serve: Serve, detail: str, code: str) -> StokerError:
    return StartFailed(f"serve '{serve.name}' exited{': ' + detail if detail else ''}", code=code or "exited")


def backing_off(error: StokerError, remaining: float) -> StokerError:
    """The error of the failed start again, with the time until the next attempt."""
    remedy = error.remedy if isinstance(error, StartFailed) else ""
    return StartFailed(error.message, code=error.code, retry_after=remaining, remedy=remedy)


def expired(state: ServeState, waiter: Waiter, now: float) -> StokerError:
    waited = now - waiter.since
    if waiter.waits_for_place and waiter.since < state.ready_since:
        loaded = now - state.ready_since
        text = (
            f"serve '{state.name}' was loaded, but had no free place within {loaded:.1f} s after that (queue_timeout)"
        )
        return CapacityError(text, code="queue_timeout")
    if waiter.waits_for_place:
        text = f"serve '{state.name}' had no free place within {waited:.1f} s (queue_timeout)"
        return CapacityError(text, code="queue_timeout")
    text = f"serve '{state.name}' was not loaded within {waited:.1f} s (swap_timeout)"
    return CapacityError(text, code="swap_timeout", retry_after=measured_swap_time(state))


def swap_reason(swap: Swap) -> str:
    """Why streams are cut."""
    if swap.reason:
        return swap.reason
    if swap.target is None:
        return "the serve is being unloaded, and its drain timeout has passed"
    return f"its slot is switching to '{swap.target.name}', and the drain timeout has passed"


def needs_force(serve: Serve) -> ClientError:
    reason = f" ({serve.reason})" if serve.reason else ""
    command = f"stoker slot switch {serve.name} --force"
    text = f"serve '{serve.name}' is {serve.status.value}{reason}: `{command}` starts it nevertheless"
    return ClientError(text, code="needs_force", status=403, param="model")


def cannot_start(serve: Serve, problems: list[str]) -> StartFailed:
    text = "; ".join(without_name(serve, problem) for problem in problems)
    return StartFailed(f"serve '{serve.name}' cannot start: {text}", code="cannot_start", retry_after=30.0, remedy=text)


def lasting_problems(serve: Serve, problems: Sequence[str]) -> StartFailed:
    """A check found lasting problems."""
    text = "; ".join(without_name(serve, problem) for problem in problems)
    return StartFailed(f"serve '{serve.name}' cannot load: {text}", code=CANNOT_LOAD, remedy=text)


def without_name(serve: Serve, problem: str) -> str:
    """The problem as the rest of a sentence that names the serve."""
    of_serve = f" of serve '{serve.name}'"
    return (
        problem.removeprefix(f"serve '{serve.name}': ")
        .removeprefix(f"the weights{of_serve}: ")
        .replace(of_serve, "", 1)
    )
