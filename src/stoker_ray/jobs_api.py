"""The REST API of a Ray cluster's head: nodes and jobs.

Every call is bounded in time and size, and raises `ClusterUnreachable` (no answer, or one that says nothing) or
`ClusterRefused` (the head understood and refused). What a submit without an answer did is unknown: look with `job`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

from stoker.domain.errors import StokerError
from stoker.domain.lease import Target
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse

ASK_LIMIT = 3.0
SUBMIT_LIMIT = 15.0
"""Seconds. The first job after a start of the head takes one."""
_LIST_BYTES = 2**25
_TAIL_LINES = 200
_WORDS = 300


class ClusterUnreachable(StokerError):
    """The head did not answer, or not with what was asked. Nothing follows from it for its jobs."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="cluster_unreachable")


class ClusterRefused(StokerError):
    """The head answered that it will not do this: the token is wrong, or the request."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="cluster_refused")


class JobStatus(StrEnum):
    PENDING = "PENDING"
    """It waits for its GPUs, or for a worker process on its node."""
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_over(self) -> bool:
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Job:
    """One submitted job, as the head knows it now."""

    id: str
    status: JobStatus
    node_id: str | None = None
    """None until it runs."""
    exit_code: int | None = None
    message: str = ""
    """What Ray says about its state; after a failure, with the end of its output."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    entrypoint: str = field(default="", repr=False)
    """Its command, with the engine's key."""


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    ip: str
    is_alive: bool = True
    is_head: bool = False
    gpus: float = 0.0
    cpus: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    """Without those that Ray sets itself."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is submitted. `environment` and `entrypoint` can be read by everybody who has the cluster's token."""

    id: str
    entrypoint: str = field(repr=False)
    node_id: str
    gpus: int
    environment: Mapping[str, str] = field(repr=False)
    metadata: Mapping[str, str]


class JobsApi:
    """One cluster's head. `token` is called for each question: it may be rotated. Never logs or raises it."""

    def __init__(self, address: str, token: Callable[[], str]) -> None:
        url = urlsplit(address)
        self.address = address
        self._token = token
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._path = url.path.rstrip("/")
        self._tls = url.scheme == "https"

    async def version(self) -> str:
        found = self._json(await self._ask("/api/version"))
        return str(found.get("ray_version", "")) if isinstance(found, dict) else ""

    async def is_open(self) -> bool:
        """Whether the head lists its jobs for somebody without a token."""
        try:
            answer = await client.ask(self._target(None), "/api/jobs/", timeout=ASK_LIMIT, limit=_LIST_BYTES)
        except NoResponse as failure:
            raise self._unreachable(failure) from None
        return answer.status not in (401, 403) and isinstance(self._json(answer), list)

    async def nodes(self) -> list[Node]:
        """Dead ones too, as long as the head remembers them."""
        found = self._json(await self._ask("/api/v0/nodes?limit=10000", limit=_LIST_BYTES))
        try:
            return [_node(row) for row in found["data"]["result"]["result"]]
        except (TypeError, KeyError, ValueError):
            raise self._strange("its list of nodes cannot be read") from None

    async def used_gpus(self) -> dict[str, float]:
        """By node, as reported some seconds ago; empty where the head does not report it."""
        found = self._json(await self._ask("/api/cluster_status", limit=_LIST_BYTES))
        try:
            usage = found["data"]["clusterStatus"]["loadMetricsReport"]["usageByNode"]
            return {str(node): float(row["GPU"][0]) for node, row in usage.items() if "GPU" in row}
        except (TypeError, KeyError, ValueError, AttributeError, IndexError):
            return {}

    async def jobs(self) -> list[Job]:
        found = self._json(await self._ask("/api/jobs/", limit=_LIST_BYTES))
        if not isinstance(found, list):
            raise self._strange("its list of jobs cannot be read")
        rows = [row for row in found if isinstance(row, dict) and row.get("submission_id")]
        return [_job(row) for row in rows]

    async def job(self, id: str) -> Job | None:
        """None: the head knows no such job."""
        answer = await self._ask(f"/api/jobs/{quote(id)}")
        if answer.status == 404:
            return None
        found = self._json(answer)
        if not isinstance(found, dict) or not found.get("submission_id"):
            raise self._strange(f"its answer about job {id} cannot be read")
        return _job(found)

    async def submit(self, request: JobRequest) -> None:
        """Raises ClusterRefused: there is no such job; ClusterUnreachable: there may be one, so look, and never submit
        the same id again.
        """
        body = {
            "submission_id": request.id,
            "entrypoint": request.entrypoint,
            "runtime_env": {"env_vars": dict(request.environment)},
            "metadata": dict(request.metadata),
            "entrypoint_num_gpus": request.gpus,
            "entrypoint_label_selector": {"ray.io/node-id": request.node_id},
        }
        answer = await self._ask("/api/jobs/", body, SUBMIT_LIMIT)
        if 400 <= answer.status < 500:
            raise ClusterRefused(f"{self._who} refused job {request.id} ({answer.status}): {_words(answer)}")
        self._json(answer)

    async def stop(self, id: str) -> None:
        """Asks the job to end. A job that waits for its GPUs ends only when it gets them, or at Ray's own limit."""
        answer = await self._ask(f"/api/jobs/{quote(id)}/stop", {})
        if answer.status != 404:
            self._json(answer)

    async def delete(self, id: str) -> None:
        """Forget a job that is over."""
        answer = await self._ask(f"/api/jobs/{quote(id)}", method="DELETE")
        if answer.status != 404:
            self._json(answer)

    async def output(self, job: Job) -> str:
        """The end of its output, at most 200 lines."""
        if job.node_id is None:
            return ""
        name = quote(f"job-driver-{job.id}.log")
        answer = await self._ask(f"/api/v0/logs/file?node_id={job.node_id}&filename={name}&lines={_TAIL_LINES}")
        return answer.body.decode("utf-8", "replace") if answer.status == 200 else ""

    # -- one question ------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        path: str,
        payload: Any = None,
        timeout: float = ASK_LIMIT,
        method: str | None = None,
        limit: int | None = None,
    ) -> HttpResponse:
        try:
            answer = await client.ask(self._target(self._token()), path, payload, timeout, method, limit)
        except NoResponse as failure:
            raise self._unreachable(failure) from None
        if answer.status in (401, 403):
            raise ClusterRefused(f"{self._who} refuses the token ({answer.status}): correct `token` of the cluster")
        return answer

    def _json(self, answer: HttpResponse) -> Any:
        if answer.status != 200:
            raise self._strange(f"it answered {answer.status}: {_words(answer)}")
        return answer.json()

    def _target(self, token: str | None) -> Target:
        return Target(self._host, self._port, self._path, key=token, tls=self._tls)

    def _unreachable(self, failure: NoResponse) -> ClusterUnreachable:
        return ClusterUnreachable(f"{self._who} cannot be reached: {failure}")

    def _strange(self, what: str) -> ClusterUnreachable:
        return ClusterUnreachable(f"{self._who} does not answer as Ray does: {what}")

    @property
    def _who(self) -> str:
        return f"the head at {self.address}"


def _job(row: Mapping[str, Any]) -> Job:
    code, metadata = row.get("driver_exit_code"), row.get("metadata")
    try:
        status = JobStatus(str(row.get("status")))
    except ValueError:
        status = JobStatus.PENDING  # a state of a later Ray: it is not known to run, nor to be over
    return Job(
        id=str(row["submission_id"]),
        status=status,
        node_id=row.get("driver_node_id") or None,
        exit_code=code if isinstance(code, int) else None,
        message=str(row.get("message") or ""),
        metadata={str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {},
        entrypoint=str(row.get("entrypoint") or ""),
    )


def _node(row: Mapping[str, Any]) -> Node:
    total = row.get("resources_total") or {}
    labels = row.get("labels") or {}
    return Node(
        id=str(row["node_id"]),
        ip=str(row["node_ip"]),
        is_alive=row.get("state") == "ALIVE",
        is_head=row.get("is_head_node") is True,
        gpus=float(total.get("GPU", 0.0)),
        cpus=float(total.get("CPU", 0.0)),
        labels={str(key): str(value) for key, value in labels.items() if not str(key).startswith("ray.io/")},
    )


def _words(answer: HttpResponse) -> str:
    """What the answer says: of a traceback only its last line."""
    lines = [line.strip() for line in answer.body.decode("utf-8", "replace").splitlines() if len(line.strip()) > 1]
    text = lines[-1] if lines else "nothing"
    return "".join(char if char.isprintable() else " " for char in text)[:_WORDS]
