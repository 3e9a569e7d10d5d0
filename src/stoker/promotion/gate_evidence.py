"""Whether a stored result shows that a serve meets the gate of an alias."""

from __future__ import annotations

from stoker.domain.errors import ClientError
from stoker.domain.gate import Alias
from stoker.domain.run import Outcome, Run, RunKind


def check_evidence(alias: Alias, serve: str, run_id: str, run: Run | None) -> None:
    """Raises ClientError 409 unless `run` is a passed run of the alias's gate on this serve.

    `run` is the result called `run_id`; None: there is no such result, or none was named.
    """
    if alias.gate is None:
        text = f"alias '{alias.name}' has no gate: give it one in the configuration, or use force and a reason"
        raise ClientError(text, code="no_gate", status=409)
    problem = _problem(alias.gate, serve, run_id, run)
    if problem:
        text = f"no evidence that serve '{serve}' meets gate '{alias.gate}': {problem}"
        text += f"; run `stoker gate {serve} --for {alias.name}`"
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
