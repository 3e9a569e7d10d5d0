"""One measurement as an artifact: who was measured, how, what came out. No prompt and no reply is in it."""

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
    """Too few samples for either word."""
    INTERRUPTED = "interrupted"
    """What was finished is kept."""
    NOT_APPLICABLE = "not-applicable"
    """The serve has nothing to which it applies; the finding says what stands in."""


class Fingerprint(msgspec.Struct, frozen=True):
    """What was measured. A baseline compares across a change of `execution`, never across one of `identity`."""

    identity: str = ""
    """Hex digest over model, revision, quantisation, chat template, sampling; empty: unknown."""
    execution: str = ""
    """Hex digest over engine and version, flags, environment, package versions."""
    parts: dict[str, str] = {}
    """Each part by name, readable or hashed, so that a difference can be named."""


class Subject(msgspec.Struct, frozen=True):
    serve: str
    model: str
    """The id that was asked for."""
    base_url: str
    """As it was asked, without credentials."""
    dialect: str = "chat"
    route: str = "front-door"
    """`front-door`, `direct`, or `public`."""
    fingerprint: Fingerprint = Fingerprint()


class Finding(msgspec.Struct):
    """One check or condition, and how it went."""

    name: str
    outcome: Outcome
    seen: str = ""
    """One sentence with the numbers."""
    cause: str = ""
    """Of a failure: what it mostly is."""
    fix: str = ""
    numbers: dict[str, Number] = {}
    seconds: float | None = None


class Run(msgspec.Struct):
    """The artifact. `id` sorts by time: `20261121T175901Z-benchmark-fast-3f2a`."""

    id: str
    kind: RunKind
    at: float
    """Unix time of the beginning."""
    seconds: float
    subject: Subject
    outcome: Outcome
    findings: list[Finding] = []
    numbers: dict[str, Number] = {}
    """What conditions of a gate may name: `ttft_p95`, `output_rate`, `tools.passed`, `tools.n`."""
    settings: dict[str, msgspec.Raw] = {}
    machine: dict[str, msgspec.Raw] = {}
    raw: msgspec.Raw = msgspec.Raw(b"null")
    """Every single measurement: in the file, not in the index."""

    def setting(self, name: str) -> object:
        """What was asked for under that name; None: nothing was."""
        found = self.settings.get(name)
        return None if found is None else msgspec.json.decode(found)
