"""The messages about a start that failed and about a ready serve that exited."""

from __future__ import annotations

from stoker.domain.errors import StartFailed, did_not_start
from stoker.engines.last_output import redact
from stoker.engines.readiness import CORRECT
from stoker.fleet.drivers.process import describe_exit
from stoker.fleet.supervision.managed_serve import ManagedServe

_DETAIL = 400
_KILLED = "perhaps the kernel killed it because memory ran out: see `dmesg`"


def ended_while_starting(managed: ManagedServe, now: float) -> StartFailed:
    """The serve exited, or was stopped, before it was ready."""
    name = managed.serve.name
    if not managed.ended_unexpectedly:
        return StartFailed(f"serve '{name}' was stopped while it was starting", code="stopped")
    code = managed.unit.code if managed.unit is not None else None
    output = managed.last_output()
    after = now - managed.launched_at
    how = _ended_how(managed)
    if how and code is None:
        return StartFailed(f"serve '{name}' {how}" + (f": {output.text}" if output.text else ""), code="cannot_start")
    ended = f"{how or describe_exit(code)} after {after:.1f} s"
    if output.failure is not None:
        # The line that says why is enough; the others are in the log.
        text = f"{did_not_start(name)}{output.hint}; it {ended}: {output.failure.evidence}; {_log(managed)}"
        return StartFailed(text, code=output.failure.kind.value, remedy=f"{output.hint}; {_log(managed)}")
    advice = f"{_KILLED}; {_log(managed)}" if code == -9 else _log(managed)
    return StartFailed(f"serve '{name}' {ended}: {output.text or 'it printed nothing'}; {advice}", remedy=advice)


def not_ready_in_time(managed: ManagedServe, limit: float, last: str) -> StartFailed:
    """The serve was not ready in time. `last`: the result of the last probe."""
    serve = managed.serve
    if managed.unit is None and last.endswith("answered 503"):
        return StartFailed(
            f"serve '{serve.name}' is not ready at {serve.base_url} ({last}): it is probably still loading its model; "
            "try again, or read its log where it runs"
        )
    if managed.unit is None and last.endswith(("answered 401", "answered 403")):
        return StartFailed(f"serve '{serve.name}' at {serve.base_url} refuses its `key` ({last}): correct it")
    if managed.unit is None:
        return StartFailed(
            f"serve '{serve.name}' did not answer at {serve.base_url} within {limit:g} s ({last}): {CORRECT}"
        )
    output, advice = managed.last_output().text, "raise `ready_timeout` if it needs longer"
    return StartFailed(
        f"serve '{serve.name}' was not ready within {limit:g} s: {advice}; the last probe: {last}; its last output: "
        f"{output or 'none'}; {_log(managed)}",
        remedy=f"{advice}; {_log(managed)}",
    )


def wrong_answer(managed: ManagedServe, what: str) -> StartFailed:
    """The serve answers, but wrongly. `what` is the rest of the sentence."""
    return StartFailed(redact(f"serve '{managed.serve.name}' {what}", managed.secrets()))


def exit_text(managed: ManagedServe, code: int | None, now: float) -> str:
    """How a ready serve exited, and its last output: the `detail` of `on_exit`."""
    output = managed.last_output()
    text = f"{_ended_how(managed) or describe_exit(code)} after {now - managed.launched_at:.0f} s"
    return f"{text}: {output.text[-_DETAIL:]}" if output.text else text


def _ended_how(managed: ManagedServe) -> str:
    return managed.unit.ended_how if managed.unit is not None else ""


def _log(managed: ManagedServe) -> str:
    return f"`stoker serves logs {managed.serve.name}` has its log"
