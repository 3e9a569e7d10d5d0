"""A switch under constant load loses no request of a client that tries once more."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.edge.ingresses import CADDY, HOST, MODEL, NGINX, Ingress, running, worker

from stoker_edge.edge import IngressKind
from stoker_edge.plan import SyncEnd
from stoker_edge.sync import StepReport, sync_edge

BOTH = [
    pytest.param(IngressKind.NGINX, marks=pytest.mark.skipif(NGINX is None, reason="no nginx: apt-get install nginx")),
    pytest.param(IngressKind.CADDY, marks=pytest.mark.skipif(CADDY is None, reason="no Caddy: apt-get install caddy")),
]
CLIENTS = 8
RETRY_AFTER = 0.1
"""Seconds; the SDKs wait for half a second and more. Caddy 2.6 may cut one that comes at once, too."""


def _ignore(report: StepReport) -> None:
    pass


async def ask(client: httpx.AsyncClient, stream: bool) -> bool:
    """Whether the whole answer came."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": stream, "max_tokens": 10}
    headers, names = {"Host": HOST}, {"sni_hostname": HOST}
    try:
        answer = await client.post("/v1/chat/completions", json=body, headers=headers, extensions=names)
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and (not stream or answer.text.rstrip().endswith("[DONE]"))


async def load(ingress: Ingress, until: asyncio.Event, seen: Counter[str]) -> None:
    """One client after the other request on connections that it keeps, every second one streamed."""
    context = ssl.create_default_context(cafile=str(ingress.folder / "cert.pem"))
    async with httpx.AsyncClient(base_url=f"https://127.0.0.1:{ingress.port}", verify=context, timeout=10) as client:
        while not until.is_set():
            seen["requests"] += 1
            stream = seen["requests"] % 2 == 0
            if not await ask(client, stream):
                seen["retried"] += 1
                await asyncio.sleep(RETRY_AFTER)
                if not await ask(client, stream):
                    seen["lost"] += 1


async def switch_under_load(ingress: Ingress, switches: int) -> Counter[str]:
    seen, done = Counter[str](), asyncio.Event()
    async with worker(ingress, "127.0.0.2", gap=0.01) as first, worker(ingress, "127.0.0.3", gap=0.01) as second:
        ingress.move_worker("127.0.0.2")
        assert (await sync_edge(ingress.edge(timeout=10.0), _ignore))[-1].end is SyncEnd.SWITCHED
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CLIENTS):
                tasks.create_task(load(ingress, done, seen))
            for number in range(switches):
                await asyncio.sleep(0.3)
                ingress.move_worker(("127.0.0.3", "127.0.0.2")[number % 2])
                report = (await sync_edge(ingress.edge(timeout=10.0), _ignore))[-1]
                assert report.end is SyncEnd.SWITCHED, report
                seen["switches"] += 1
            await asyncio.sleep(0.3)
            done.set()
        assert min(first.counters.started, second.counters.started) > 20
        seen["milliseconds"] = round((time.monotonic() - began) * 1000)
    return seen


@pytest.mark.parametrize("kind", BOTH)
def test_a_switch_under_load_loses_no_request_of_a_client_that_tries_once_more(
    kind: IngressKind, tmp_path: Path
) -> None:
    with running(kind, tmp_path) as ingress:
        seen = asyncio.run(switch_under_load(ingress, 4))
    assert seen["lost"] == 0, seen
    assert seen["requests"] > 100, seen


@pytest.mark.heavy
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", BOTH)
def test_fifty_switches_under_load_lose_no_request(kind: IngressKind, tmp_path: Path) -> None:
    with running(kind, tmp_path) as ingress:
        seen = asyncio.run(switch_under_load(ingress, 50))
    print(kind.value, json.dumps(seen))
    assert seen["lost"] == 0, seen
