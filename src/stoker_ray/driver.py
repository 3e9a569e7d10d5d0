"""The Ray driver: a serve in a slot with a cluster runs as a job there, by the REST API of the cluster's head.

Reading order: `start_problems`, `launch`, then `find` and `attach`, for after a restart of Stoker.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from stoker.domain.errors import ConfigError, StartFailed
from stoker.domain.lease import Target
from stoker.domain.serve import Driver, JobPlace, Serve, share_slot
from stoker.engines.last_output import redact
from stoker.engines.launch import LaunchPlace
from stoker.fleet.drivers.unit import DriverContext, Launched, finish
from stoker.fleet.process.environment import any_port
from stoker.fleet.process.identity import JobRecord, StartRecord
from stoker.fleet.process.logs import log_path
from stoker.http import client
from stoker.http.client import NoResponse
from stoker_ray import job_output, nodes, ranks
from stoker_ray.examine import unfit_reason
from stoker_ray.job_unit import CONNECT_LIMIT, JobUnit
from stoker_ray.job_watch import APPEARS_WITHIN
from stoker_ray.jobs_api import ClusterRefused, ClusterUnreachable, Job, JobRequest, JobsApi, Node
from stoker_ray.nodes import NoRoom
from stoker_ray.rank_group import RankGroup, RankStart

REPORT_LAG = 15.0
"""Seconds for which Ray's report of used GPUs may still count a job that is over."""
_PORT_TRIES = 20
_POLL_INTERVAL = 0.5


class RayDriver:
    """Implements `drivers.unit.UnitDriver`."""

    def __init__(self, context: DriverContext) -> None:
        self._paths = context.paths
        self._keys = context.keys
        self._log = context.log
        self._cluster_of = context.cluster_of
        self._units: dict[str, JobUnit | RankGroup] = {}
        """By job, until each is known to be gone."""
        self._records: dict[str, JobRecord] = {}
        self._ended: list[tuple[float, JobRecord]] = []
        self._doubts: dict[str, str] = {}
        self._placing = asyncio.Lock()
        """Held from the look at free GPUs to the submit, so that two starts do not count on the same GPU."""

    # -- before a start ----------------------------------------------------------------------------------------------

    async def start_problems(self, serve: Serve) -> list[str]:
        """See `UnitDriver.start_problems`: the cluster, its token, its version, a node with free GPUs.

        What runs in the same slot counts as free: it is stopped before the start.
        """
        place = _place_of(serve)
        if (busy := self._busy(serve, place, only_ending=True)) is not None:
            return [f"serve '{serve.name}': {busy}"]
        here = [
            ranks.job_id(job, number)
            for job, record in self._records.items()
            if record.cluster == place.cluster and share_slot(record.slot, serve.slot)
            for number in range(len(record.ranks()))
        ]
        try:
            api = self._api(place.cluster, place.address)
            found = await unfit_reason(api) or await self._nodes(api, place, here)
        except (ClusterUnreachable, ClusterRefused, ConfigError) as failure:
            return [f"serve '{serve.name}': {failure.message}"]
        if isinstance(found, tuple):
            return []
        return [f"serve '{serve.name}': {found.reason if isinstance(found, NoRoom) else found}"]

    async def _nodes(self, api: JobsApi, place: JobPlace, leaving: Container[str] = ()) -> tuple[Node, ...] | NoRoom:
        """The node of each rank. `leaving`: jobs that will have ended. Raises as `JobsApi`."""
        all_nodes, reported, jobs = await asyncio.gather(api.nodes(), api.used_gpus(), api.jobs())
        now = asyncio.get_running_loop().time()
        self._ended = [(at, record) for at, record in self._ended if now - at < REPORT_LAG]
        own = nodes.own_gpus(job for job in jobs if job.id not in leaving)
        ended: dict[str, float] = {}
        for record in [record for _, record in self._ended] + [r for job, r in self._records.items() if job in leaving]:
            for rank in record.ranks():
                ended[rank.node] = ended.get(rank.node, 0.0) + rank.gpus
        free = {node.id: nodes.free_gpus(node, reported, own, ended) for node in all_nodes}
        return nodes.choose_nodes(place.ranks(), all_nodes, free)

    def _busy(self, serve: Serve, place: JobPlace, only_ending: bool = False) -> str | None:
        """Why the slot cannot take a job: another one there is not known to be gone."""
        for id, unit in self._units.items():
            cluster, slot = unit.slot
            is_here = cluster == place.cluster and share_slot(slot, serve.slot)
            if is_here and (unit.is_ending or not only_ending):
                return f"slot '{serve.slot}' is still used by job {id}: {unit.why_not_gone}; it is tried again later"
        return None

    # -- start -------------------------------------------------------------------------------------------------------

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """See `UnitDriver.launch`. The id is written down before the submit, which is never repeated: if nobody knows
        what became of it, the unit looks for the job.
        """
        place = _place_of(serve)
        if (busy := self._busy(serve, place)) is not None:
            raise StartFailed(f"serve '{serve.name}': {busy}", code="still_used", retry_after=5.0)
        try:
            api = self._api(place.cluster, place.address)
            async with self._placing:
                return await self._submit(api, serve, place, taken, started_at, intend)
        except (ClusterUnreachable, ClusterRefused, ConfigError) as failure:
            text = f"serve '{serve.name}' was not started: {failure.message}"
            raise StartFailed(text, code="cannot_start") from failure

    async def _submit(
        self,
        api: JobsApi,
        serve: Serve,
        place: JobPlace,
        taken: Container[int],
        started_at: float,
        intend: Callable[[StartRecord], None],
    ) -> Launched:
        chosen = await self._nodes(api, place)
        if isinstance(chosen, NoRoom):
            raise StartFailed(f"serve '{serve.name}' was not started: {chosen.reason}", code="cannot_start")
        nonce = secrets.token_hex(16)
        port = await _free_port(serve, chosen, taken)
        meets_at = await _free_port(replace(serve, port=None), chosen[:1], {port}) if len(chosen) > 1 else 0
        start = LaunchPlace(port, self._keys.key(serve, nonce))
        planned = ranks.plans(serve, start, chosen, meets_at)
        log = log_path(self._paths.logs, serve.name)
        record = StartRecord(
            name=serve.name,
            pid=0,
            mark="",
            command="",
            fingerprint=self._keys.fingerprint(serve),
            port=port,
            nonce=nonce,
            takes_key=planned[0].takes_key,
            started_at=started_at,
            log=str(log),
            grace=serve.stop_grace,
            driver=Driver.RAY,
            handle=_job_id(serve, nonce),
            facts={"node": ", ".join(node.ip for node in chosen)},
            job=ranks.job_record(place, serve.slot or "", chosen),
        )
        shown = [redact(" ".join(launch.argv), [start.key]) for launch in planned]
        what = ranks.described(record, place.cluster, shown)
        log_start = job_output.begin(log, self._paths.log_bytes, serve.name, what)
        intend(record)
        await self._ask_for(api, ranks.requests(serve, planned, record, chosen))
        return Launched(record, self._keys.address(serve, record), log, log_start)

    async def _ask_for(self, api: JobsApi, requests: Sequence[JobRequest]) -> None:
        """Submits. A cancel comes through after it: only then it is known what has to be ended."""
        submit = asyncio.get_running_loop().create_task(self._try(api, requests), name=f"submit-{requests[0].id}")
        try:
            await finish(submit)
        except asyncio.CancelledError as cancel:
            if isinstance(cancel.__cause__, ClusterRefused):
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            task.cancel()  # it is raised at the caller's next await, when the unit is there to be ended

    async def _try(self, api: JobsApi, requests: Sequence[JobRequest]) -> None:
        """Each rank after the other. Raises ClusterRefused if there is none; else the ranks that there are have to be
        ended, which follows from the doubt about the one that is missing.
        """
        for number, request in enumerate(requests):
            try:
                await api.submit(request)
            except ClusterUnreachable as failure:
                self._doubts[request.id] = failure.message
                self._log.warning("job %s: whether it was submitted is unknown: %s", request.id, failure.message)
            except ClusterRefused as failure:
                if number == 0:
                    raise
                self._doubts[request.id] = failure.message
                return

    # -- afterwards --------------------------------------------------------------------------------------------------

    def attach(
        self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]
    ) -> JobUnit | RankGroup:
        """See `UnitDriver.attach`. Never raises: a job that is gone is reported as ended."""
        job = record.job
        if job is None:
            raise ProcessLookupError(record.handle)

        def gone() -> None:
            self._units.pop(record.handle, None)
            self._records.pop(record.handle, None)
            self._ended.append((asyncio.get_running_loop().time(), job))
            on_gone()

        unit = self._unit(record, job, on_exit, gone)
        self._units[record.handle] = unit
        self._records[record.handle] = job
        return unit

    def _unit(
        self, record: StartRecord, job: JobRecord, on_exit: Callable[[int | None], None], gone: Callable[[], None]
    ) -> JobUnit | RankGroup:
        api = self._api(job.cluster, job.address)

        def rank(number: int, of: JobRecord, title: str = "") -> RankStart:
            own = ranks.record_of(record, number)
            doubt = self._doubts.pop(own.handle, "")
            return lambda exited, left: JobUnit(api, own, of, exited, left, self._log, doubt, title)

        if not job.others:
            return rank(0, job)(on_exit, gone)
        all_ranks = job.ranks()
        starts = [rank(number, of, f"rank {number} on node {of.host}:") for number, of in enumerate(all_ranks)]
        return RankGroup(starts, [of.host for of in all_ranks], on_exit, gone)

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The record, unless its job is known not to run. A head that does not answer proves nothing. Of several ranks,
        one that may run is enough: if another one is gone, all have to be ended.

        1. its cluster is not configured any more -> nobody can look after it   2. no answer -> perhaps
        3. unknown to Ray -> no, unless its submit is so recent that it may still appear
        4. another start's -> no   5. over -> no; it is forgotten
        """
        job = record.job
        if job is None:
            return None
        if self._cluster_of(job.cluster) is None:  # 1
            self._log.warning(
                "serve %s: cluster '%s' is not configured any more, so job %s is not looked after: if it runs, end it "
                "with `ray job stop %s --address %s`",
                record.name, job.cluster, record.handle, record.handle, job.address,
            )  # fmt: skip
            return None
        api = self._api(job.cluster, job.address)
        own = [ranks.record_of(record, number) for number in range(len(job.ranks()))]
        try:
            found = await asyncio.gather(*(self._look_for(api, one) for one in own))
            if not all(one is None or one.status.is_over for one in found):
                return record
            for over in found:
                if over is not None:  # 5
                    await api.delete(over.id)
        except (ClusterUnreachable, ClusterRefused, ConfigError) as failure:  # 2
            self._log.warning("serve %s: job %s may still run: %s", record.name, record.handle, failure.message)
            return record
        return None

    async def _look_for(self, api: JobsApi, record: StartRecord) -> Job | None:
        """Its job; one whose start was interrupted gets the time in which it may still appear. Not that of another."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (0.0 if record.ready else APPEARS_WITHIN / 2)
        while True:
            found = await api.job(record.handle)
            if found is not None or loop.time() >= until:
                return found if found is not None and found.metadata.get(nodes.NONCE) == record.nonce else None  # 3, 4
            await asyncio.sleep(_POLL_INTERVAL)

    async def recent_output(self, record: StartRecord) -> str:
        """Nothing: the output is in a log file."""
        return ""

    def _api(self, cluster: str, address: str) -> JobsApi:
        return JobsApi(address, lambda: self._token(cluster))

    def _token(self, name: str) -> str:
        cluster = self._cluster_of(name)
        if cluster is None:
            raise ClusterRefused(f"cluster '{name}' is not configured any more")
        return cluster.token.reveal()


def _place_of(serve: Serve) -> JobPlace:
    if serve.job_place is None:
        raise StartFailed(f"serve '{serve.name}' is in no cluster", code="cannot_start")
    return serve.job_place


def _job_id(serve: Serve, nonce: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", serve.name).strip("-")[:40]
    return f"stoker-{name}-{nonce[:12]}"


async def _free_port(serve: Serve, chosen: Sequence[Node], taken: Container[int]) -> int:
    """A port at which nothing listens on these nodes. Raises StartFailed for a fixed one that is taken."""
    if serve.port is not None:
        if (node := await _listening(chosen, serve.port)) is not None:
            text = f"serve '{serve.name}' was not started: port {serve.port} of node {node.ip} is taken; remove `port`"
            raise StartFailed(text, code="cannot_start")
        return serve.port
    for _ in range(_PORT_TRIES):
        port = any_port()
        if port not in taken and await _listening(chosen, port) is None:
            return port
    ips = ", ".join(node.ip for node in chosen)
    raise StartFailed(f"serve '{serve.name}' was not started: {ips}: no free port was found", code="cannot_start")


async def _listening(chosen: Sequence[Node], port: int) -> Node | None:
    """The first node on which something listens there."""
    answers = await asyncio.gather(*(_listens(node.ip, port) for node in chosen))
    return next((node for node, listens in zip(chosen, answers, strict=True) if listens), None)


async def _listens(ip: str, port: int) -> bool:
    try:
        await client.connect(Target(ip, port), CONNECT_LIMIT)
    except NoResponse:
        return False
    return True
