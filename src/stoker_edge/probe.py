"""Asks workers directly whether they are the one: health, then the exact id in /v1/models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from stoker.domain.lease import Target
from stoker.domain.serve import Secret
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse
from stoker_edge.edge import Edge, WorkerAddress
from stoker_edge.problem import EdgeProblem

TIMEOUT = 3.0
"""Seconds for one question to one address."""
_CODE = re.compile(r"[a-z0-9_]{1,40}")


async def prove(edge: Edge, addresses: Sequence[WorkerAddress]) -> WorkerAddress:
    """The one address that proves to be the worker. Raises EdgeProblem: none does, or several do."""
    reasons = await asyncio.gather(*[_unproved_reason(edge, address) for address in addresses])
    proved = [address for address, reason in zip(addresses, reasons, strict=True) if not reason]
    if len(proved) == 1:
        return proved[0]
    if proved:
        raise EdgeProblem(
            f"edge '{edge.name}': {len(proved)} of {len(addresses)} addresses answer as '{edge.worker.model}' "
            f"({', '.join(map(str, proved))}), and requests can go to one only: stop the others, or give the address "
            "of one as `static`",
            code="several_workers",
        )
    if len(addresses) == 1:
        raise EdgeProblem(f"edge '{edge.name}': the worker at {addresses[0]} {reasons[0]}", code="worker_not_proved")
    listed = "; ".join(f"{address} {reason}" for address, reason in zip(addresses, reasons, strict=True))
    raise EdgeProblem(
        f"edge '{edge.name}': none of {len(addresses)} addresses proves to be the worker: {listed}",
        code="worker_not_proved",
    )


def worker_target(edge: Edge, address: WorkerAddress) -> Target:
    worker = edge.worker
    key = worker.key.reveal() if worker.key is not None else None
    return Target(address.host, address.port, worker.path, worker.model, key)


async def _unproved_reason(edge: Edge, address: WorkerAddress) -> str:
    """Completes "the worker at ADDRESS ..."; empty: it is the worker."""
    target = worker_target(edge, address)
    try:
        health = await client.ask(target, edge.worker.health, timeout=TIMEOUT)
        if health.status not in (200, 404, 405):
            return f"is not healthy: GET {edge.worker.health} answered {health.status}; look at its log"
        return wrong_models(
            await client.ask(target, "/v1/models", timeout=TIMEOUT), edge.worker.model, key_advice(edge.worker.key)
        )
    except NoResponse as error:
        return f"does not answer: {error}; `curl http://{address}{edge.worker.health}` tries it"


def key_advice(key: Secret | None, setting: str = "key") -> str:
    """What to do about a refused key."""
    return f"give `{setting}`, which is not set" if key is None else f"check `{setting}` ({key.source})"


def wrong_models(answer: HttpResponse, wanted: str, advice: str) -> str:
    """What is wrong with the answer of /v1/models; empty if it has the exact id. `advice`: about a refused key."""
    if answer.status in (401, 403):
        code = _code(answer)
        if code == " (foreign_host)":
            advice = "add the host to `front_door.allowed_hosts` of the Stoker that answers there"
        elif answer.status == 403:
            advice += ", and who may use this address"
        return f"refuses the request: GET /v1/models answered {answer.status}{code}; {advice}"
    if answer.status != 200:
        return f"has no list of models: GET /v1/models answered {answer.status}"
    found = answer.json()
    data = found.get("data") if isinstance(found, dict) else None
    ids = [str(entry.get("id")) for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    if wanted in ids:
        return ""
    if not ids:
        return f"lists no models: wanted '{wanted}'"
    shown = ", ".join(f"'{one[:80]}'" for one in ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return f"answers as another model: wanted '{wanted}', GET /v1/models shows {shown}; correct `model`, or the worker"


def _code(answer: HttpResponse) -> str:
    """The error's code, in brackets. Never its message: that may repeat the key."""
    found = answer.json()
    error = found.get("error") if isinstance(found, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
