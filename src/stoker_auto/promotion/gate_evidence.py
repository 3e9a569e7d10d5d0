"""Whether a stored result shows that a serve meets the gate of an alias."""

from __future__ import annotations

from stoker.domain.errors import ClientError
from stoker.domain.gate import Alias, Gate, has_gate_changed
from stoker.domain.run import Outcome, Run, RunKind


def check_evidence(alias: Alias, gate: Gate | None, serve: str, run_id: str, run: Run | None) -> None:
    """Raises ClientError 409 unless `run` is a passed run of the alias's gate, as it is configured now, on this serve.

    `gate` is the alias's gate; None: it has none. `run` is the result called `run_id`; None: there is no such result,
    or none was named.
    """
    if gate is None:
        forced = f"stoker promote {alias.name} {serve} --force --reason TEXT"
        text = f"alias '{alias.name}' has no gate: give it one in the configuration, or promote without: `{forced}`"
        raise ClientError(text, code="no_gate", status=409)
    command = f"`stoker gate {serve} --for {alias.name}`"
    problem = _problem(gate.name, serve, run_id, run)
    if problem:
        text = f"no evidence that serve '{serve}' meets gate '{gate.name}': {problem}; run {command}"
        raise ClientError(text, code="no_evidence", status=409)
    if run is not None and has_gate_changed(gate, run):
        text = f"no evidence that serve '{serve}' meets gate '{gate.name}': "
        text += f"the gate changed since it was run: run it again: {command}"
        raise ClientError(text, code="no_evidence", status=409)


def _problem(gate: str, serve: str, run_id: str, run: Run | None) -> str:
    if run is None:
        return f"there is no result '{run_id[:80]}'" if run_id else "no result was named"
    if run.kind is not RunKind.GATE or run.subject.serve != serve:
        return f"{run.id} is a {run.kind.value} of serve '{run.subject.serve}'"
    if run.outcome is not Outcome.PASSED:
        failed = [finding.name for finding in run.findings if finding.outcome is not Outcome.PASSED]
        return f"{run.id} {run.outcome.value}: {', '.join(failed)}"
    if (tested := run.setting("gate")) != gate:
        return f"{run.id} belongs to gate '{tested}'"
    return ""
