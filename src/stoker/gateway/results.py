"""Stored results for operators: GET /admin/results.

/admin/results           what was measured, newest first         /admin/results/ID     one result, without its samples
/admin/results/compare   two of one kind side by side            /admin/results/gates  each gate, and who met it
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from stoker.access.caller import Caller, require
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.gate import Gate, has_gate_changed
from stoker.domain.key import Scope
from stoker.domain.run import Outcome, Run, RunKind
from stoker.extensions import missing_because, offered
from stoker.gateway.operations import Operation
from stoker.request.accept.routes import wrong_method
from stoker.store.results import ResultEntry, Results

MAX_LISTED = 1000
AT_ONCE = 2
"""Requests that read files at the same time; others wait."""
_GATE_RUNS = 200
"""The newest results of gates, of which the newest of each gate and serve is shown."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_SETTINGS = frozenset((
    "alias", "conditions", "full_length", "gate", "max_age", "modes", "output_tokens", "preset", "previous",
    "prompt_tokens", "repeats", "runs", "slo_tpot", "slo_ttft", "unknown_ok", "whole",
))  # fmt: skip
"""Settings of a measurement that a key of scope observe is shown; others may say how a serve is started."""
_E = TypeVar("_E", bound=StrEnum)


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/admin/results", "Results of measurements, the newest first.", Scope.OBSERVE,
              query=("kind", "serve", "outcome", "limit")),
    Operation("GET", "/admin/results/{result}", "One result.", Scope.OBSERVE),
    Operation("GET", "/admin/results/compare", "Two results beside each other.", Scope.OBSERVE, query=("a", "b")),
    Operation("GET", "/admin/results/gates", "Each gate with its newest judgements.", Scope.OBSERVE),
)  # fmt: skip


class ResultPages:
    """`gates()`: those configured now. Files are read in threads."""

    def __init__(self, results: Results, gates: Callable[[], Sequence[Gate]]) -> None:
        self._results = results
        self._gates = gates
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def handle(self, caller: Caller, method: str, rest: str, query: Mapping[str, str]) -> dict[str, Any]:
        """`rest`: the path behind /admin/results/.

        Raises ClientError 400, 403 (scope), 404, 405; StokerError 500 if the index cannot be used.
        """
        require(caller, Scope.OBSERVE)
        if method not in ("GET", "HEAD"):
            raise wrong_method(f"/admin/results does not accept {method}: use GET", "GET")
        is_admin = caller.key.scope >= Scope.ADMIN
        async with self._turns:
            match rest:
                case "":
                    return await asyncio.to_thread(self._listed, query)
                case "compare":
                    return await asyncio.to_thread(self._compared, query, is_admin)
                case "gates":
                    return await asyncio.to_thread(self._of_gates, tuple(self._gates()))
                case _:
                    return await asyncio.to_thread(lambda: _shown(self._find(rest), is_admin))

    def _listed(self, query: Mapping[str, str]) -> dict[str, Any]:
        limit = query.get("limit", "100")
        if not (limit.isascii() and limit.isdigit()):
            raise ClientError("limit must be a number", code="bad_field", param="limit")
        kind, outcome = _word(RunKind, query, "kind"), _word(Outcome, query, "outcome")
        unreadable = self._results.sync()
        count = min(int(limit[:9]), MAX_LISTED)
        found = self._results.select(kind, query.get("serve"), None, outcome, limit=count)
        return {"results": [one._asdict() for one in found], "unreadable": len(unreadable)}

    def _compared(self, query: Mapping[str, str], is_admin: bool) -> dict[str, Any]:
        before, after = (self._find(query.get(name, ""), name) for name in ("a", "b"))
        if before.kind is not after.kind:
            text = f"a {before.kind} and a {after.kind} cannot be compared: name two results of the same kind"
            raise ClientError(text, code="different_kinds", param="b")
        comparison_document = offered("comparison")
        if comparison_document is None:
            raise ClientError(
                f"results are compared by the extension lab, {missing_because('lab')}", code="not_installed"
            )
        document: dict[str, Any] = comparison_document(before, after)
        if not is_admin:
            parts = document["different"].items()
            document["different"] = {name: [line.partition(": ")[0] for line in lines] for name, lines in parts}
        return document

    def _of_gates(self, gates: Sequence[Gate]) -> dict[str, Any]:
        self._results.sync()
        runs = self._newest(self._results.select(RunKind.GATE, limit=_GATE_RUNS)) if gates else []
        found = []
        for gate in gates:
            own = [_judged(gate, run) for run in runs if run.setting("gate") == gate.name]
            conditions = [one.text for one in gate.conditions]
            found.append({"gate": gate.name, "conditions": conditions, "max_age": gate.max_age, "runs": own})
        return {"gates": found}

    def _newest(self, entries: Sequence[ResultEntry]) -> list[Run]:
        """One for each gate and serve."""
        found: dict[tuple[object, str], Run] = {}
        for entry in entries:
            try:
                run = self._results.load_without_samples(entry.id)
            except StokerError:
                continue  # it was deleted, or is invalid
            found.setdefault((run.setting("gate"), entry.serve), run)
        return list(found.values())

    def _find(self, run_id: str, param: str | None = None) -> Run:
        """Raises ClientError 404."""
        if not _ID.fullmatch(run_id):
            text = f"'{run_id[:80]}' is not the id of a result; /admin/results lists them"
            raise ClientError(text, code="unknown_result", status=404, param=param)
        try:
            return self._results.load_without_samples(run_id)
        except StokerError:
            text = f"no result '{run_id[:80]}' can be read; /admin/results lists them"
            raise ClientError(text, code="unknown_result", status=404, param=param) from None


def _shown(run: Run, is_admin: bool) -> dict[str, Any]:
    """Everything but the samples. How a serve is started is for scope admin."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(run))
    del document["raw"]
    if not is_admin:
        document["machine"] = {}
        document["settings"] = {name: value for name, value in document["settings"].items() if name in _SETTINGS}
        document["subject"]["base_url"] = ""
        document["subject"]["fingerprint"]["parts"] = {}
    return document


def _judged(gate: Gate, run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "serve": run.subject.serve,
        "at": run.at,
        "outcome": run.outcome,
        "has_changed": has_gate_changed(gate, run),
        "findings": msgspec.to_builtins(run.findings),
    }


def _word(kind: type[_E], query: Mapping[str, str], name: str) -> _E | None:
    given = query.get(name)
    if given is None:
        return None
    try:
        return kind(given)
    except ValueError:
        text = f"'{given[:40]}' is no {name} of a result; choose among {', '.join(kind)}"
        raise ClientError(text, code="bad_field", param=name) from None
