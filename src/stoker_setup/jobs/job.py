"""One job: what is asked for, the command that does it, and what is told of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec

from stoker.domain.errors import ClientError

LONGEST_WORD = 1000
NOTES = 20
"""The last lines that a command has said, which are kept."""
Kind = Literal["look", "add", "preflight", "benchmark"]


class JobRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST /admin/jobs."""

    kind: Kind
    model: str = ""
    """As `stoker add` takes it: of `look` and `add`."""
    slot: str = ""
    """Where it is to run; empty: as `stoker add` chooses."""
    name: str = ""
    """Of its serve; empty: as `stoker add` names it."""
    check: bool = True
    """Whether it is loaded and asked at the end."""
    serve: str = ""
    """Of `preflight` and `benchmark`."""
    quick: bool = True
    """A benchmark with one short repeat of each step."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Stoker ended while it was queued or running."""

    @property
    def is_over(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobProgress(msgspec.Struct, omit_defaults=True):
    """`share` 0 to 1, `left` in seconds, `done` and `total` in bytes, `speed` in bytes per second; None: unknown."""

    what: str = ""
    share: float | None = None
    left: float | None = None
    done: int | None = None
    total: int | None = None
    speed: float | None = None


class JobError(msgspec.Struct):
    message: str
    code: str = ""


class Job(msgspec.Struct, kw_only=True):
    """Times are Unix seconds."""

    id: str
    request: JobRequest
    state: JobState = JobState.QUEUED
    at: float
    began: float | None = None
    ended: float | None = None
    progress: JobProgress | None = None
    notes: list[str] = []
    error: JobError | None = None
    result: Any = None
    """What the command printed for programs; of a measurement, what of it a page shows."""

    @property
    def subject(self) -> str:
        return shown(self.request.model or self.request.serve)

    def to_keep(self) -> Job:
        """For a file: what of an address may be a secret is not in it."""
        return msgspec.structs.replace(
            self, request=msgspec.structs.replace(self.request, model=shown(self.request.model))
        )

    def summary(self) -> dict[str, Any]:
        """For /status: without what may be long."""
        return {
            "id": self.id, "kind": self.request.kind, "subject": self.subject, "state": self.state.value,
            "at": self.at, "began": self.began, "ended": self.ended,
            "progress": None if self.progress is None else msgspec.to_builtins(self.progress),
            "error": None if self.error is None else self.error.code,
        }  # fmt: skip

    def document(self) -> dict[str, Any]:
        """All of it."""
        return self.summary() | {
            "request": msgspec.to_builtins(self.request), "notes": self.notes,
            "error": None if self.error is None else msgspec.to_builtins(self.error), "result": self.result,
        }  # fmt: skip


def shown(model: str) -> str:
    """Of a web address what is no secret: without its query, user and password."""
    if not model.lower().startswith(("http://", "https://")):
        return model
    scheme, _, rest = model.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


LANES: dict[Kind, str] = {"look": "look", "add": "add", "preflight": "measure", "benchmark": "measure"}
"""Of each lane one job runs at a time, and the others wait for it."""


def command_of(request: JobRequest, place: Sequence[str]) -> list[str]:
    """What is typed behind `stoker`. `place`: the options that say which Stoker is meant. Raises ClientError."""
    subject = _checked(request)
    match request.kind:
        case "look":
            options = ["--dry-run", *_given(request), *place]
        case "add":
            options = ["--yes", *(["--no-preflight"] if not request.check else []), *_given(request), *place]
        case "preflight":
            return ["eval", "preflight", "--json", *place, "--", subject]
        case "benchmark":
            return ["eval", "benchmark", "--json", *(["--quick"] if request.quick else []), *place, "--", subject]
    return ["add", "--json", *options, "--", subject]


def _given(request: JobRequest) -> list[str]:
    slot = [f"--slot={request.slot}"] if request.slot else []
    return [*slot, *([f"--name={request.name}"] if request.name else [])]


def _checked(request: JobRequest) -> str:
    """What it is about. Raises ClientError for words that are missing, or that no command line takes."""
    field = "model" if request.kind in ("look", "add") else "serve"
    subject: str = getattr(request, field).strip()
    if not subject:
        raise ClientError(f"'{field}' is missing: send what `{request.kind}` is about", code="bad_field", param=field)
    for name in (field, "slot", "name"):
        word: str = getattr(request, name)
        if len(word) > LONGEST_WORD or not word.isprintable():
            text = f"'{name}' is no name: {LONGEST_WORD} characters at most, and none that is not printed"
            raise ClientError(text, code="bad_field", param=name)
    return subject
