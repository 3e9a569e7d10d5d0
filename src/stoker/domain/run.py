"""The result of one measurement: what was measured, how, and the numbers. It holds no prompt and no reply."""

from __future__ import annotations

from enum import StrEnum

import msgspec

Number = float | int | None


class RunKind(StrEnum):
    PREFLIGHT = "preflight"
    BENCHMARK = "benchmark"
    CONTEXT = "context"
    CANARY = "canary"
    SOAK = "soak"
    SWEEP = "sweep"
    GATE = "gate"
    PROMOTION = "promotion"
    BOOTSTRAP = "bootstrap"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    """Too few samples to say passed or failed."""
    INTERRUPTED = "interrupted"
    """Stopped before its end; the finished part is kept."""
    NOT_APPLICABLE = "not-applicable"
    """The measurement does not apply to this serve; the finding says why."""


IDENTITY_PARTS = ("model", "revision", "quantisation", "template", "sampling")


class Fingerprint(msgspec.Struct, frozen=True):
    """Which model was measured, and how it ran. A baseline stays comparable if `execution` changes, not if `identity`
    does.
    """

    identity: str = ""
    """Hex digest over model, revision, quantisation, chat template, sampling; empty: unknown."""
    execution: str = ""
    """Hex digest over engine and version, flags, environment, package versions."""
    parts: dict[str, str] = {}
    """Each part by its name, as text or as a hash, so that a difference can be named."""

    @property
    def unknown_parts(self) -> str:
        """What of the identity is not known, as words: `template, sampling`; `model` if nothing says what."""
        unknown = [name for name in IDENTITY_PARTS if name not in self.parts]
        return ", ".join(unknown) if unknown and self.parts else "model"


class Subject(msgspec.Struct, frozen=True):
    """The serve that was measured, and how it was reached."""

    serve: str
    model: str
    """The model name in the requests."""
    base_url: str
    """The URL of the requests, without credentials."""
    dialect: str = "chat"
    route: str = "front-door"
    """`front-door`, `direct`, or `public`."""
    fingerprint: Fingerprint = Fingerprint()


class Finding(msgspec.Struct):
    """One check or condition, and its outcome."""

    name: str
    outcome: Outcome
    observed: str = msgspec.field(default="", name="seen")
    """One sentence with the numbers."""
    cause: str = ""
    """The usual cause of this failure."""
    fix: str = ""
    """What to do about the failure."""
    numbers: dict[str, Number] = {}
    seconds: float | None = None


class Run(msgspec.Struct):
    """The stored result. `id` sorts by time: `20261121T175901Z-benchmark-fast-3f2a`."""

    id: str
    kind: RunKind
    at: float
    """Unix time of the start."""
    seconds: float
    subject: Subject
    outcome: Outcome
    findings: list[Finding] = []
    numbers: dict[str, Number] = {}
    """What conditions of a gate may name: `ttft_p95`, `output_rate`, `tools.passed`, `tools.n`."""
    settings: dict[str, msgspec.Raw] = {}
    machine: dict[str, msgspec.Raw] = {}
    raw: msgspec.Raw = msgspec.Raw(b"null")
    """Every single sample. It is in the run's file, not in the index."""

    def setting(self, name: str) -> object:
        """The setting of that name; None: it was not set."""
        found = self.settings.get(name)
        return None if found is None else msgspec.json.decode(found)
