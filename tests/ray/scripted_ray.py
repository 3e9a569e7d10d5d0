"""The head of a Ray cluster, scripted: real processes behind its REST API, with what is odd about the real one.

- the same submission id again is a 500 with a traceback
- a job without free GPUs is PENDING; a stop of it is kept until it gets them: it runs for a moment, then it is STOPPED
- a job that is not over cannot be deleted (500)
- the GPUs that are reported as used may lag behind
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stoker.domain.cluster import Cluster
from stoker.domain.serve import Secret

TOKEN = "t0k3n-of-the-cluster"
_OVER = ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass
class ScriptedNode:
    id: str
    ip: str
    gpus: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    state: str = "ALIVE"
    foreign: int = 0
    """GPUs that other programs of the cluster hold."""
    reported: int | None = None
    """GPUs that are reported as used; None: those that are."""


@dataclass
class ScriptedJob:
    body: dict[str, Any]
    status: str = "PENDING"
    node: ScriptedNode | None = None
    process: asyncio.subprocess.Process | None = None
    output: bytes = b""
    is_stopped: bool = False
    exit_code: int | None = None
    message: str = ""


class ScriptedRay:
    """Runs on the loop of the test. `on_call(verb, path)` is called before each call is carried out, and may change the
    script, or return "drop" (nothing happens, the connection ends), "lose" (it happens, the connection ends) or
    "500" (it happens, and the answer is a 500).
    """

    def __init__(self) -> None:
        self.nodes = [
            ScriptedNode("a" * 56, "127.0.0.1", labels={"box": "alpha"}),
            ScriptedNode("b" * 56, "127.0.0.5", labels={"box": "beta"}),
        ]
        self.jobs: dict[str, ScriptedJob] = {}
        self.calls: list[str] = []
        self.version = "2.60.0"
        self.is_open = False
        self.on_call: Callable[[str, str], str | None] = lambda verb, path: None
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def cluster(self) -> Cluster:
        return Cluster("lab", f"http://127.0.0.1:{self.port}", Secret(TOKEN, "file:token"))

    def submissions(self) -> list[str]:
        return [call for call in self.calls if call == "POST /api/jobs/"]

    def alive(self) -> list[str]:
        return [id for id, job in self.jobs.items() if job.status not in _OVER]

    async def listen(self) -> None:
        """Also after `fall_silent`, on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def fall_silent(self) -> None:
        """The head dies; jobs run on."""
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def kill_node(self, node: ScriptedNode, *, is_noticed: bool) -> None:
        """The node dies with its jobs. `is_noticed`: Ray says so already."""
        for job in self.jobs.values():
            if job.node is node and job.process is not None and job.status == "RUNNING":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGKILL)
        if is_noticed:
            self.notice_death(node)

    def notice_death(self, node: ScriptedNode) -> None:
        node.state = "DEAD"
        for job in self.jobs.values():
            if job.node is node and job.status not in _OVER:
                job.status, job.message = "FAILED", "Job supervisor actor died: its node is dead."

    async def close(self) -> None:
        await self.fall_silent()
        for job in self.jobs.values():
            if job.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGKILL)
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- jobs --------------------------------------------------------------------------------------------------------

    def used(self, node: ScriptedNode) -> int:
        running = [job for job in self.jobs.values() if job.node is node and job.status == "RUNNING"]
        return node.foreign + sum(job.body["entrypoint_num_gpus"] for job in running)

    def schedule(self) -> None:
        """Starts what fits now."""
        for job in self.jobs.values():
            wanted = job.body["entrypoint_label_selector"]["ray.io/node-id"]
            node = next((node for node in self.nodes if node.id == wanted and node.state == "ALIVE"), None)
            is_waiting = job.status == "PENDING" and job.process is None and job.node is None
            if is_waiting and node is not None and node.gpus - self.used(node) >= job.body["entrypoint_num_gpus"]:
                job.node, job.status = node, "RUNNING"
                task = asyncio.get_running_loop().create_task(self._run(job))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, job: ScriptedJob) -> None:
        environment = {**os.environ, **job.body["runtime_env"]["env_vars"], "CUDA_VISIBLE_DEVICES": "0"}
        job.process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", job.body["entrypoint"], env=environment, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        if job.is_stopped:
            os.killpg(job.process.pid, signal.SIGTERM)
        assert job.process.stdout is not None
        id, command = job.body["submission_id"], job.body["entrypoint"]
        job.output = b"2026-11-24 04:45:40,558\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
        job.output += f"Running entrypoint for job {id}: {command}\n".encode()
        while data := await job.process.stdout.read(4096):
            job.output += data
        code = await job.process.wait()
        if job.node is not None and job.status == "RUNNING" and (job.node.state == "ALIVE" or job.is_stopped):
            if code == -signal.SIGKILL and not job.is_stopped:
                return  # its node died; Ray will notice
            job.exit_code = None if job.is_stopped else code
            job.status = "STOPPED" if job.is_stopped else "FAILED" if code else "SUCCEEDED"
            if job.status == "FAILED":
                tail = job.output[-20_000:].decode()
                job.message = f"Job entrypoint command failed with exit code {code}, last available logs:\n{tail}"
        self.schedule()

    def _stop(self, job: ScriptedJob) -> None:
        job.is_stopped = True
        if job.process is not None and job.status == "RUNNING":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGTERM)

    # -- HTTP --------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("Content-Len")), 0)
            body = await reader.readexactly(size)
            verb, path, _ = head.split(" ", 2)
            status, value = 401, b"Unauthorized"
            if self.is_open or f"Authorization: Bearer {TOKEN}" in head:
                self.calls.append(f"{verb} {path.partition('?')[0]}")
                fault = self.on_call(verb, path)
                if fault != "drop":
                    status, value = self._answer(verb, path, body)
                if fault == "500":
                    status, value = 500, b"Traceback (most recent call last):\nRuntimeError: it broke\n."
                if fault in ("drop", "lose"):
                    writer.transport.abort()
                    return
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(value), value))
            await writer.drain()
        writer.close()

    def _answer(self, verb: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path.startswith("/api/jobs/"):
            return self._answer_job(verb, path.removeprefix("/api/jobs/"), body)
        if path == "/api/version":
            return 200, _json({"version": "4", "ray_version": self.version})
        if path.startswith("/api/v0/nodes"):
            return 200, _json({"data": {"result": {"result": [self._node(node) for node in self.nodes]}}})
        if path == "/api/cluster_status":
            usage = {
                node.id: {"GPU": [float(self.used(node) if node.reported is None else node.reported), node.gpus]}
                for node in self.nodes
            }
            return 200, _json({"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": usage}}}})
        if path.startswith("/api/v0/logs/file"):
            id = path.partition("job-driver-")[2].partition(".log")[0]
            return 200, self.jobs[id].output
        return 404, b"nothing is here"

    def _answer_job(self, verb: str, rest: str, body: bytes) -> tuple[int, bytes]:
        if not rest and verb == "POST":
            asked = json.loads(body)
            if asked["submission_id"] in self.jobs:
                return 500, b"Traceback (most recent call last):\nValueError: already exists.\n."
            self.jobs[asked["submission_id"]] = ScriptedJob(asked)
            self.schedule()
            return 200, _json({"submission_id": asked["submission_id"]})
        if not rest:
            return 200, _json([self._job(id, job) for id, job in self.jobs.items()])
        id, _, action = rest.partition("/")
        job = self.jobs.get(id)
        if job is None:
            return 404, f"Job {id} does not exist".encode()
        if action == "stop":
            self._stop(job)
            return 200, _json({"stopped": True})
        if verb == "DELETE":
            if job.status not in _OVER:
                return 500, b"RuntimeError: Attempted to delete job, but it is in a non-terminal state\n."
            del self.jobs[id]
            return 200, _json({"deleted": True})
        return 200, _json(self._job(id, job))

    def _node(self, node: ScriptedNode) -> dict[str, Any]:
        labels = {**node.labels, "ray.io/node-id": node.id}
        total = {"CPU": 2.0, "GPU": float(node.gpus)}
        return {"node_id": node.id, "node_ip": node.ip, "state": node.state, "is_head_node": False,
                "resources_total": total, "labels": labels}  # fmt: skip

    def _job(self, id: str, job: ScriptedJob) -> dict[str, Any]:
        return {
            "type": "SUBMISSION", "submission_id": id, "status": job.status, "message": job.message,
            "metadata": job.body["metadata"],
            "entrypoint": job.body.get("entrypoint", ""), "runtime_env": job.body["runtime_env"],
            "driver_node_id": job.node.id if job.node is not None else None, "driver_exit_code": job.exit_code,
        }  # fmt: skip


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextlib.asynccontextmanager
async def scripted_ray() -> AsyncIterator[ScriptedRay]:
    ray = ScriptedRay()
    await ray.listen()
    try:
        yield ray
    finally:
        await ray.close()


@contextlib.contextmanager
def ray_in_thread() -> Iterator[ScriptedRay]:
    """On a loop of its own, in a thread: for a Stoker that is called, or runs in a process of its own."""
    started: list[ScriptedRay] = []
    is_up, ends = threading.Event(), threading.Event()

    async def live() -> None:
        async with scripted_ray() as head:
            started.append(head)
            is_up.set()
            while not ends.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    is_up.wait()
    try:
        yield started[0]
    finally:
        ends.set()
        thread.join()
