"""Route sync with real nginx and real Caddy, over TLS: what it switches, what it refuses, what it undoes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.edge.ingresses import CADDY, NGINX, Ingress, running, worker

from stoker_edge.edge import Edge, IngressKind
from stoker_edge.journal import SwitchEntry, SwitchJournal
from stoker_edge.plan import SyncEnd, SyncStep
from stoker_edge.problem import EdgeProblem
from stoker_edge.sync import StepReport, SyncReport, sync_edge
from stoker_edge.template import marker_of
from stoker_edge.verify import verify_routes

needs_nginx = pytest.mark.skipif(NGINX is None, reason="no nginx here: apt-get install nginx-light")
needs_caddy = pytest.mark.skipif(CADDY is None, reason="no Caddy here: apt-get install caddy")
BOTH = [pytest.param(IngressKind.NGINX, marks=needs_nginx), pytest.param(IngressKind.CADDY, marks=needs_caddy)]
Body = Callable[[Ingress], Coroutine[Any, Any, None]]


def with_ingress(kind: IngressKind, folder: Path, body: Body, *, is_marked: bool = True) -> None:
    with running(kind, folder, is_marked=is_marked) as ingress:
        asyncio.run(body(ingress))


async def synced(edge: Edge, **options: Any) -> SyncReport:
    """The last pass."""
    return (await sync_edge(edge, _ignore, **options))[-1]


def _ignore(report: StepReport) -> None:
    pass


@pytest.mark.parametrize("kind", BOTH)
def test_the_ingress_follows_a_worker_to_its_new_address(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2") as first, worker(ingress, "127.0.0.3") as second:
            ingress.move_worker("127.0.0.2")
            report = await synced(ingress.edge())
            assert (report.end, report.address) == (SyncEnd.SWITCHED, f"127.0.0.2:{ingress.worker_port}"), report
            assert first.counters.started
            before = second.counters.started
            ingress.move_worker("127.0.0.3")
            assert (await synced(ingress.edge())).end is SyncEnd.SWITCHED
            assert second.counters.started > before
            assert not list(ingress.folder.rglob(".*stoker-check*"))
            assert not list(ingress.folder.rglob(".*stoker-switch*"))

    with_ingress(kind, tmp_path, body)


@pytest.mark.parametrize("kind", BOTH)
def test_an_unchanged_target_is_neither_written_nor_reloaded(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            await synced(ingress.edge())
            before = ingress.upstream.stat()
            ingress.commands["reload"] = ("false",)
            report = await synced(ingress.edge())
            assert report.end is SyncEnd.UNCHANGED
            assert report.steps[-1].step is SyncStep.COMPARE
            assert ingress.upstream.stat().st_mtime_ns == before.st_mtime_ns

    with_ingress(kind, tmp_path, body)


def written(ingress: Ingress) -> tuple[list[Path], str]:
    """Names of files, without those that Caddy keeps for itself, and what the one of the upstream says."""
    of_caddy = {"storage", "caddy"}  # it writes them when it likes
    own = [path for path in ingress.folder.rglob("*") if of_caddy.isdisjoint(path.relative_to(ingress.folder).parts)]
    return sorted(own), ingress.upstream.read_text()


@pytest.mark.parametrize("kind", BOTH)
def test_a_dry_run_shows_the_difference_and_changes_nothing(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            before = written(ingress)
            report = await synced(ingress.edge(), dry_run=True)
            assert report.end is SyncEnd.PREVIEWED
            assert f"127.0.0.2:{ingress.worker_port}" in report.diff
            assert written(ingress) == before

    with_ingress(kind, tmp_path, body)


@pytest.mark.parametrize("kind", BOTH)
def test_a_template_that_the_ingress_refuses_changes_nothing(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        template = ingress.folder / "own.tmpl"
        template.write_text("this is no configuration @address@ {{\n")
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            before = ingress.upstream.read_text()
            report = await synced(ingress.edge(template=str(template)))
            assert report.end is SyncEnd.REFUSED
            assert report.steps[-1].step is SyncStep.VALIDATE
            assert f"{kind.value} does not accept the candidate" in report.problem
            assert ingress.upstream.read_text() == before

    with_ingress(kind, tmp_path, body)


@pytest.mark.parametrize("kind", BOTH)
def test_a_reload_that_fails_puts_the_old_file_back(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        flag = ingress.folder / "broken"
        reload = ingress.commands["reload"]
        ingress.commands["reload"] = ("sh", "-c", f'rm {flag} 2>/dev/null && exit 3; exec "$@"', "reload", *reload)
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3"):
            ingress.move_worker("127.0.0.2")
            assert (await synced(ingress.edge())).end is SyncEnd.SWITCHED
            before = ingress.upstream.read_text()
            flag.touch()
            ingress.move_worker("127.0.0.3")
            report = await synced(ingress.edge())
            assert report.end is SyncEnd.ROLLED_BACK
            assert "was not reloaded" in report.problem
            assert ingress.upstream.read_text() == before
            assert await verify_routes(ingress.edge(), marker_of(before))

    with_ingress(kind, tmp_path, body)


@pytest.mark.parametrize("script", [{"error_status": 500}, {"tokens": 0}])
@needs_nginx
def test_a_worker_that_does_not_generate_gets_no_request(tmp_path: Path, script: dict[str, int]) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.3", **script):
            ingress.move_worker("127.0.0.3")
            before = ingress.upstream.read_text()
            report = await synced(ingress.edge())
            assert (report.end, report.steps[-1].step) == (SyncEnd.REFUSED, SyncStep.GENERATE)
            assert "the worker at 127.0.0.3" in report.problem
            assert ingress.upstream.read_text() == before

    with_ingress(IngressKind.NGINX, tmp_path, body)


@pytest.mark.parametrize("kind", BOTH)
def test_a_public_route_that_does_not_answer_is_rolled_back(kind: IngressKind, tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3"):
            ingress.move_worker("127.0.0.2")
            edge = ingress.edge()
            assert (await synced(edge)).end is SyncEnd.SWITCHED
            before = ingress.upstream.read_text()
            ingress.move_worker("127.0.0.3")
            assert edge.routes is not None
            urls = (*edge.routes.urls, f"https://llm.example:{ingress.port}/no/such/route")
            report = await synced(replace(edge, routes=replace(edge.routes, urls=urls, timeout=1.0)))
            assert report.end is SyncEnd.ROLLED_BACK
            assert "/no/such/route/v1/* has no list of models" in report.problem
            assert report.old_route_problem
            assert ingress.upstream.read_text() == before
            assert await verify_routes(edge, marker_of(before))

    with_ingress(kind, tmp_path, body)


@needs_nginx
def test_an_ingress_that_answers_from_old_processes_is_not_taken_for_the_new_target(tmp_path: Path) -> None:
    """`nginx -s reload` returns before the new processes answer: the marker says who answered."""

    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3"):
            ingress.move_worker("127.0.0.2")
            assert (await synced(ingress.edge())).end is SyncEnd.SWITCHED
            ingress.commands["reload"] = ("true",)
            ingress.move_worker("127.0.0.3")
            report = await synced(ingress.edge(timeout=0.6))
            assert report.end is SyncEnd.ROLLED_BACK
            assert "still leads to the old worker" in report.problem

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_an_ingress_without_the_marker_is_verified_after_a_pause(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            report = await synced(ingress.edge())
            assert report.end is SyncEnd.SWITCHED
            assert "without the marker" in next(one.detail for one in report.steps if one.step is SyncStep.VERIFY)

    with_ingress(IngressKind.NGINX, tmp_path, body, is_marked=False)


@needs_nginx
def test_a_file_that_the_ingress_does_not_include_is_refused(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.config.write_text(ingress.config.read_text().replace("include conf.d", "# include conf.d"))
            ingress.move_worker("127.0.0.2")
            report = await synced(ingress.edge())
            assert report.end is SyncEnd.REFUSED
            assert "does not include" in report.problem
            assert "add `include " in report.problem

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_a_validation_without_a_copy_happens_in_place_and_is_undone(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        ingress.commands["validate"] = tuple(
            str(ingress.config) if word == "{config}" else word for word in ingress.commands["validate"]
        )
        template = ingress.folder / "own.tmpl"
        template.write_text("no configuration @address@\n")
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            before = ingress.upstream.read_text()
            report = await synced(ingress.edge(template=str(template), timeout=0.5))
            assert report.end is SyncEnd.ROLLED_BACK
            assert ingress.upstream.read_text() == before
            assert (await synced(ingress.edge())).end is SyncEnd.SWITCHED

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_an_interrupted_switch_is_finished_if_its_worker_still_proves_itself(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            edge = ingress.edge()
            await synced(edge)
            new = ingress.upstream.read_text()
            entry = SwitchEntry("gpu", "# the old one\n", new, "127.0.0.2", ingress.worker_port)
            SwitchJournal("gpu", str(ingress.upstream)).begin(entry)
            first, second = await sync_edge(edge, _ignore)
            assert (first.end, second.end) == (SyncEnd.SWITCHED, SyncEnd.UNCHANGED)
            assert SwitchJournal("gpu", str(ingress.upstream)).read() is None

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_an_interrupted_switch_to_a_worker_that_is_gone_is_undone_before_the_next_one(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            edge = ingress.edge(timeout=1.0)
            await synced(edge)
            old = ingress.upstream.read_text()
            new = old.replace("127.0.0.2", "127.0.0.4")
            SwitchJournal("gpu", str(ingress.upstream)).begin(
                SwitchEntry("gpu", old, new, "127.0.0.4", ingress.worker_port)
            )
            ingress.upstream.write_text(new)
            first, second = await sync_edge(edge, _ignore)
            assert (first.end, second.end) == (SyncEnd.ROLLED_BACK, SyncEnd.UNCHANGED)
            assert ingress.upstream.read_text() == old

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_a_second_run_does_not_interleave(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"):
            ingress.move_worker("127.0.0.2")
            journal = SwitchJournal("gpu", str(ingress.upstream))
            with journal.locked(), pytest.raises(EdgeProblem, match="another route-sync is at work"):
                await synced(ingress.edge())

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_a_cancelled_switch_is_undone(tmp_path: Path) -> None:
    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.2"), worker(ingress, "127.0.0.3"):
            ingress.move_worker("127.0.0.2")
            await synced(ingress.edge())
            before = ingress.upstream.read_text()
            ingress.move_worker("127.0.0.3")
            reached = asyncio.Event()
            routes = ingress.edge(timeout=20.0).routes
            assert routes is not None
            never = replace(ingress.edge(), routes=replace(routes, urls=(f"https://llm.example:{ingress.port}/no",)))

            def observe(report: StepReport) -> None:
                if report.step is SyncStep.RELOAD:
                    reached.set()

            task = asyncio.get_running_loop().create_task(sync_edge(never, observe))
            await asyncio.wait_for(reached.wait(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ingress.upstream.read_text() == before
            assert SwitchJournal("gpu", str(ingress.upstream)).read() is None
            assert await verify_routes(ingress.edge(), marker_of(before))

    with_ingress(IngressKind.NGINX, tmp_path, body)


@needs_nginx
def test_of_ten_addresses_exactly_one_has_to_prove_itself(tmp_path: Path) -> None:
    ten = [f"127.0.0.{number}" for number in range(2, 12)]

    async def body(ingress: Ingress) -> None:
        async with worker(ingress, "127.0.0.4"), worker(ingress, "127.0.0.5", id="llama"):
            ingress.move_worker(*ten)
            report = await synced(ingress.edge())
            assert (report.end, report.address) == (SyncEnd.SWITCHED, f"127.0.0.4:{ingress.worker_port}")
            async with worker(ingress, "127.0.0.3"):
                report = await synced(ingress.edge())
                assert report.end is SyncEnd.REFUSED
                assert "2 of 10 addresses answer as 'qwen'" in report.problem
                assert "give the address of one as `static`" in report.problem

    with_ingress(IngressKind.NGINX, tmp_path, body)
