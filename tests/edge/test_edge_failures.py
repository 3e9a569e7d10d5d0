"""Whatever fails, and whenever the run is killed: the ingress stays as it was, or points at a proved worker."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.edge.ingresses import NGINX, Ingress, configuration, free_port, running, worker

from stoker_edge.edge import Edge, IngressKind
from stoker_edge.plan import SyncEnd
from stoker_edge.problem import EdgeProblem
from stoker_edge.sync import StepReport, SyncReport, sync_edge
from stoker_edge.template import marker_of
from stoker_edge.verify import verify_routes

pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx here: apt-get install nginx-light")
STOKER = str(Path(sys.executable).with_name("stoker"))
FAILURES = ("worker gone", "wrong id", "unhealthy", "no token", "invalid template", "reload fails", "route dead",
            "wrong certificate")  # fmt: skip


def _ignore(report: StepReport) -> None:
    pass


async def fail(ingress: Ingress, failure: str, address: str) -> SyncReport:
    """One run towards a worker at `address`, with this failure."""
    edge = ingress.edge(timeout=0.5)
    own, routes = edge.ingress, edge.routes
    assert own is not None
    assert routes is not None
    script: dict[str, object] = {}
    match failure:
        case "wrong id":
            script["shown_id"] = "llama"
        case "unhealthy":
            script["never_ready"] = True
        case "no token":
            script["tokens"] = 0
        case "invalid template":
            template = ingress.folder / "bad.tmpl"
            template.write_text("upstream stoker_gpu { server @address@ nonsense; }\n")
            edge = replace(edge, ingress=replace(own, template=str(template)))
        case "reload fails":
            flag = ingress.folder / "broken"
            flag.touch()
            script_text = f'rm {flag} 2>/dev/null && exit 3; exec "$@"'
            reload = ("sh", "-c", script_text, "reload", *own.reload)
            edge = replace(edge, ingress=replace(own, reload=reload))
        case "route dead":
            edge = replace(edge, routes=replace(routes, urls=(f"https://llm.example:{free_port()}",)))
        case "wrong certificate":
            edge = replace(edge, routes=replace(routes, urls=(f"https://other.example:{ingress.port}",)))
    async with AsyncExitStack() as stack:
        if failure != "worker gone":
            await stack.enter_async_context(worker(ingress, address, **script))
        ingress.move_worker(address)
        return (await sync_edge(edge, _ignore))[-1]


async def fail_often(ingress: Ingress, count: int, seed: int) -> dict[str, int]:
    """How often each failure left the ingress as it was."""
    choose, seen = random.Random(seed), dict.fromkeys(FAILURES, 0)
    async with worker(ingress, "127.0.0.2"):
        ingress.move_worker("127.0.0.2")
        edge = ingress.edge()
        assert (await sync_edge(edge, _ignore))[-1].end is SyncEnd.SWITCHED
        before = ingress.upstream.read_bytes()
        for number in range(count):
            failure = FAILURES[number] if number < len(FAILURES) else choose.choice(FAILURES)
            report = await fail(ingress, failure, choose.choice(("127.0.0.3", "127.0.0.4", "127.0.0.5")))
            assert report.end in (SyncEnd.REFUSED, SyncEnd.ROLLED_BACK), (failure, report)
            assert report.problem
            assert ingress.upstream.read_bytes() == before, failure
            assert await verify_routes(edge, marker_of(before.decode())), failure
            assert not list(ingress.folder.rglob(".*.stoker-switch"))
            seen[failure] += 1
    return seen


def test_each_failure_leaves_the_ingress_as_it_was(tmp_path: Path) -> None:
    with running(IngressKind.NGINX, tmp_path) as ingress:
        assert set(asyncio.run(fail_often(ingress, len(FAILURES), 0)).values()) == {1}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_fifty_random_failures_leave_the_ingress_as_it_was(tmp_path: Path) -> None:
    with running(IngressKind.NGINX, tmp_path) as ingress:
        seen = asyncio.run(fail_often(ingress, 50, 16))
    print(json.dumps(seen))
    assert sum(seen.values()) == 50


async def sync_when_free(edge: Edge) -> Any:
    """A child of the killed run, forked and not yet another program, may hold its lock for a moment."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return await sync_edge(edge, _ignore)
        except EdgeProblem as problem:
            if problem.code != "sync_under_way" or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def kill_after(ingress: Ingress, edge: Edge, lines: int) -> None:
    """Kill a run after so many steps, and run again: the route then leads to the new worker, or still to the old."""
    before = ingress.upstream.read_text()
    process = await asyncio.create_subprocess_exec(
        STOKER, "route-sync", "--config", str(ingress.folder / "stoker.toml"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for _ in range(lines):
        await asyncio.wait_for(process.stderr.readline(), 30)
    process.send_signal(signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    in_place = ingress.upstream.read_text()
    assert in_place == before or marker_of(in_place) != marker_of(before)
    reports = await sync_when_free(edge)
    assert reports[-1].is_success, reports
    assert await verify_routes(edge, marker_of(ingress.upstream.read_text()))
    assert not list(ingress.folder.rglob(".*.stoker-switch"))


@pytest.mark.parametrize("lines", [2, 4, 6, 7, 8])
def test_a_run_that_is_killed_at_any_step_is_finished_by_the_next_one(tmp_path: Path, lines: int) -> None:
    async def body(ingress: Ingress) -> None:
        (ingress.folder / "stoker.toml").write_text(configuration(ingress))
        edge = ingress.edge()
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3"):
            ingress.move_worker("127.0.0.2")
            assert (await sync_edge(edge, _ignore))[-1].end is SyncEnd.SWITCHED
            ingress.move_worker("127.0.0.3")
            await kill_after(ingress, edge, lines)

    with running(IngressKind.NGINX, tmp_path) as ingress:
        asyncio.run(body(ingress))


def test_the_command_says_what_it_does_and_ends_with_a_code(tmp_path: Path) -> None:
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        words = (STOKER, "route-sync", *words, "--config", str(tmp_path / "stoker.toml"))
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    async def body(ingress: Ingress) -> None:
        (ingress.folder / "stoker.toml").write_text(configuration(ingress))
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3", shown_id="llama"):
            ingress.move_worker("127.0.0.2")
            address = f"127.0.0.2:{ingress.worker_port}"
            preview = await asyncio.to_thread(typed, "--dry-run")
            assert preview.returncode == 0
            assert f"+    server {address} max_fails=0;" in preview.stdout
            done = await asyncio.to_thread(typed, "gpu")
            assert (done.returncode, done.stdout) == (
                0, f"gpu: switched to {address}, verified through the public route\n"
            )  # fmt: skip
            assert "gpu: verify ok" in done.stderr
            again = await asyncio.to_thread(typed, "--json")
            assert json.loads(again.stdout)[0]["outcome"] == "unchanged"
            ingress.move_worker("127.0.0.3")
            wrong = await asyncio.to_thread(typed, "--quiet")
            assert wrong.returncode == 1
            assert "answers as another model: wanted 'qwen', GET /v1/models shows 'llama'" in wrong.stderr
            assert wrong.stdout == "gpu: refused: nothing was changed\n"
            unknown = await asyncio.to_thread(typed, "gpo")
            assert unknown.returncode == 2
            assert "there is no edge 'gpo'" in unknown.stderr

    with running(IngressKind.NGINX, tmp_path) as ingress:
        asyncio.run(body(ingress))


def test_a_benchmark_measures_the_route_and_the_worker_in_turns(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        text = f'[paths]\nstate = "{tmp_path}/state"\n{configuration(ingress)}'
        (ingress.folder / "stoker.toml").write_text(text)
        measured = "--preset users --concurrency 2 --seconds 0.1 --requests 4 --repeats 1 --prompt-tokens 32"
        words = (STOKER, "eval", "benchmark", "--through", "gpu", *measured.split())
        words = (*words, "--config", str(ingress.folder / "stoker.toml"))
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            await sync_edge(ingress.edge(), _ignore)
            done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            assert f"routed (https://llm.example:{ingress.port}/v1)" in done.stdout
            assert f"direct (http://127.0.0.2:{ingress.worker_port}/v1)" in done.stdout
            assert "routed against direct, TTFT p50: " in done.stdout
            assert "routed against direct, output tokens/s: " in done.stdout

    with running(IngressKind.NGINX, tmp_path) as ingress:
        asyncio.run(body(ingress))
