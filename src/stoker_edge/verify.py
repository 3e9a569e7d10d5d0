"""Asks through the public routes, as a client does: TLS, the exact id, one streamed token."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse
from stoker_edge.edge import Edge, PublicRoutes, WorkerAddress
from stoker_edge.probe import key_advice, worker_target, wrong_models
from stoker_edge.problem import EdgeProblem

MARKER_HEADER = "x-stoker-edge"
"""The response header that says by which upstream file a response came, if the ingress sets it."""
PAUSE = 0.1
SETTLE = 1.0
"""Seconds after a reload before a response without the marker counts: until then an old worker process of nginx may
answer.
"""
GENERATION_TIMEOUT = 30.0
"""Seconds for one token from the worker itself: it may be busy."""
_TOKEN: dict[str, Any] = {"messages": [{"role": "user", "content": "Say one word."}], "max_tokens": 8, "stream": True}
_TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls")


async def verify_routes(edge: Edge, marker: str) -> str:
    """Until every route is verified, for at most the configured time. Returns what was seen. Raises EdgeProblem.

    `marker`: of the upstream file in place; empty: unknown. A route whose responses carry another marker still leads
    to the old worker, and is asked again.
    """
    routes = edge.routes
    if routes is None:
        raise EdgeProblem(f"edge '{edge.name}' has no public routes: add `routes`")
    if routes.ca and not os.access(routes.ca, os.R_OK):
        raise EdgeProblem(f"edge '{edge.name}': the certificates in {routes.ca} cannot be read: correct `ca`")
    began = time.monotonic()
    results = await asyncio.gather(
        *[_verify_route(edge, url, routes, marker, began) for url in routes.urls], return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return ", ".join(str(result) for result in results)


async def prove_generation(edge: Edge, address: WorkerAddress) -> None:
    """One streamed token from the worker itself. Raises EdgeProblem."""
    target = worker_target(edge, address)
    try:
        answer = await client.ask(target, "/v1/chat/completions", _question(target), GENERATION_TIMEOUT)
        why = _no_token_reason(answer)
    except NoResponse as error:
        why = f"does not generate: {error}"
    if why:
        text = f"edge '{edge.name}': the worker at {address} {why}; look at its log"
        raise EdgeProblem(text, code="worker_not_proved")


async def _verify_route(edge: Edge, url: str, routes: PublicRoutes, marker: str, began: float) -> str:
    target = route_target(url, edge.worker.model, routes)
    while True:
        left = routes.timeout - (time.monotonic() - began)
        is_workers = routes.key == edge.worker.key
        advised = key_advice(routes.key, "key" if is_workers and routes.key is not None else "route_key")
        why, is_marked = await _unverified_reason(target, marker, max(left, PAUSE), advised)
        is_settled = is_marked or not marker or time.monotonic() - began >= min(SETTLE, routes.timeout / 2)
        if not why and is_settled:
            return f"{url}/v1/* ({'marked' if is_marked else 'without the marker'})"
        if time.monotonic() - began >= routes.timeout:
            why = why or "is not verified"
            host = urlsplit(url).hostname
            raise EdgeProblem(
                f"edge '{edge.name}': the public route {url}/v1/* {why}: `curl -v {url}/v1/models` tries it "
                f"({host} is {routes.connect_to or 'looked up'})",
                code="route_not_verified",
            )
        await asyncio.sleep(PAUSE)


def route_target(url: str, model: str, routes: PublicRoutes) -> Target:
    """The public route as a server to ask, connected to and trusted as configured."""
    parts = urlsplit(url)
    key = routes.key.reveal() if routes.key is not None else None
    return Target(
        parts.hostname or "",
        parts.port or 443,
        parts.path,
        model,
        key,
        True,
        address=routes.connect_to,
        ca_file=routes.ca,
    )


async def _unverified_reason(target: Target, marker: str, timeout: float, advised: str) -> tuple[str, bool]:
    """(what is wrong, or empty; whether the responses carry the marker). Completes "the public route URL ..."."""
    try:
        models = await client.ask(target, "/v1/models", timeout=timeout)
        is_marked = MARKER_HEADER in models.headers
        if is_marked and marker and models.headers[MARKER_HEADER] != marker:
            return "still leads to the old worker, although the ingress was reloaded", True
        why = wrong_models(models, target.served_name, advised)
        if why:
            return why, is_marked
        answer = await client.ask(target, "/v1/chat/completions", _question(target), timeout)
        return _no_token_reason(answer), is_marked
    except NoResponse as error:
        return f"does not answer: {error}", False


def _question(target: Target) -> dict[str, Any]:
    return {"model": target.served_name, **_TOKEN}


def _no_token_reason(answer: HttpResponse) -> str:
    if answer.status != 200:
        return f"does not generate: POST /v1/chat/completions answered {answer.status}"
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return "does not stream: POST /v1/chat/completions answered without server-sent events"
    if not any(_has_token(line[5:]) for line in answer.body.splitlines() if line.startswith(b"data:")):
        return "streams no token: POST /v1/chat/completions answered without one"
    return ""


def _has_token(data: bytes) -> bool:
    try:
        chunk: Any = json.loads(data)
        delta = chunk["choices"][0]["delta"]
        return any(delta.get(name) for name in _TEXTS)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
