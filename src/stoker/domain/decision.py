"""The record of one request. No field can hold a prompt, a reply or a header."""

from __future__ import annotations

import msgspec

from stoker.domain.usage import MediaUnits


class Candidate(msgspec.Struct, frozen=True):
    """A serve that was considered, and why it was not used (empty: it was)."""

    serve: str
    dropped: str = ""


class Attempt(msgspec.Struct):
    """One candidate of a plan that was asked. Its cost counts even if its answer was discarded."""

    tier: str = ""
    """Empty: the request named its model."""
    outcome: str = ""
    """`served`, or why the next candidate was asked."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In the currency of the tiers; None: the tokens are not known."""
    seconds: float | None = None
    repairs: int = 0
    """How often the tier was asked again because its answer was wrong."""
    checked: bool = False
    """Whether its answer was verified, to the end or to the first fault."""
    findings: list[str] = []
    """What verification found, without the content of the answer."""
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    serve: str = ""
    """Or its replica."""

    def add_tokens(self, decision: Decision) -> None:
        """One call of the serve is over: add what it used."""
        self.input_tokens = _sum(self.input_tokens, decision.input_tokens)
        self.output_tokens = _sum(self.output_tokens, decision.output_tokens)
        self.cached_tokens = _sum(self.cached_tokens, decision.cached_tokens)
        self.cache_write_tokens = _sum(self.cache_write_tokens, decision.cache_write_tokens)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


class Routed(msgspec.Struct):
    """How a request that names a task got its tier."""

    task: str
    source: str
    """What determined the class: see `domain.task.ClassSource`."""
    notes: list[str] = []
    tier: str = ""
    """The tier that answered; empty: none."""
    verdict: str = ""
    verify: str = ""
    """How its answer was checked: `off`, `observe`, `hold-tools`, `hold-all`."""
    why: list[str] = []
    """Each tier and why it was chosen or dropped."""
    attempts: list[Attempt] = []
    graded: str = ""
    """A judge's grade of the answer. Only the running Stoker knows it; it is not stored."""

    @property
    def cost(self) -> float:
        """The known cost of the request, including discarded answers."""
        return sum(attempt.cost or 0.0 for attempt in self.attempts)


class OrchestratedRecord(msgspec.Struct):
    """How a request that names an orchestrator was answered. `block_by_block` fills the counts."""

    orchestrator: str
    policy: str
    """`block_by_block` or `simple`."""
    why: str
    """`caller`, `configured`, `tools`, `format`, `endpoint`, or the class."""
    blocks: int = 0
    """Committed."""
    resumed: int = 0
    """Of them, those that an earlier request had committed."""
    failures: dict[str, int] = {}
    """Blocks that failed, by layer; `unreadable`: answers of the validator that could not be read."""
    discarded: int = 0
    """Blocks that were thrown away because one before them failed."""
    generations: int = 0
    validator: str = ""
    """The serve that judged; empty: no model did."""
    validator_tokens: int = 0
    validator_output_tokens: int = 0
    """Of them, those that it wrote."""
    wasted_tokens: int = 0
    """Output that is no part of the answer, estimated from its length."""


class ToolRecord(msgspec.Struct):
    """What Stoker did with one of its tools for a request."""

    name: str
    kind: str
    """`web_search`, `web_fetch` or `mcp`."""
    calls: int = 0
    """Those that ran."""
    failed: int = 0
    seconds: float = 0.0
    bytes: int = 0
    """Of text that the model got."""
    cost: float = 0.0
    """Money for the calls that were answered."""


class WaitPart(msgspec.Struct, frozen=True):
    """What a request waited for, or a part of that. Times are seconds since its arrival."""

    kind: str
    """`wait` (the whole), `place` or `swap`."""
    start: float
    end: float
    words: str


FAILURES = frozenset({"upstream_failed", "stalled", "cut", "bug"})
"""Outcomes that are no caller's fault."""


class Decision(msgspec.Struct):
    """One record per request. Times are seconds; None means unknown, never 0."""

    id: str
    at: float
    """Unix time of arrival."""
    endpoint: str
    model: str = ""
    """The model name in the request, shortened to 200 characters."""
    key: str = ""
    """The key's name, never its value."""
    serve: str = ""
    replica: str = ""
    """The replica that was asked last, if the serve has several."""
    session: str = ""
    """The session that it belongs to; empty: it stands alone, or that is not known."""
    candidates: list[Candidate] = []
    tried: list[Attempt] = []
    """The attempts, if the first one failed and another serve or replica was asked. Those of a request for a task are
    in `routed`.
    """
    attempts: int = 0
    stream: bool = False
    status: int = 0
    outcome: str = "open"
    """`served`, `client_left`, `refused`, `upstream_failed`, `cut`, `stalled`, `bug`."""
    reason: str = ""
    """The error's code, when there was one."""
    queued: float | None = None
    ttft: float | None = None
    latency: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    tokens_estimated: bool = False
    """Whether Stoker estimated `input_tokens` or `output_tokens`, because the serve did not count them to the end."""
    translation: str = ""
    """Edits that were made to the request, comma separated (`model`, `include_usage`, ...)."""
    routed: Routed | None = None
    """None: the request named its model."""
    orchestrated: OrchestratedRecord | None = None
    """None: the request did not name an orchestrator."""
    media: MediaUnits | None = None
    """None: the request was about text."""
    rounds: int = 0
    """Answers of the model that called tools of Stoker. One more follows, unless the client has to go on."""
    tools: list[ToolRecord] = []
    """The tools that ran for it."""
    remedy: str = ""
    """What to do about a serve that did not start, in Stoker's own words; empty: nothing is known, or all is well."""
    waits: list[WaitPart] = []
    """What it waited for: the whole, then its parts in order. Only in the file: memory knows more."""
    unrecorded: int = 0
    """How many requests with the same key were refused for the same reason before this one, without a record."""

    @property
    def all_tried(self) -> list[Attempt]:
        """Each candidate that was asked, in order; empty: one at most, and nothing is known beside the decision."""
        return self.tried if self.routed is None else self.routed.attempts

    @property
    def is_failed(self) -> bool:
        """Whether there was no whole answer, through no fault of the caller: refusals for want of a place count, wrong
        requests, limits and callers that left do not.
        """
        return self.outcome in FAILURES or self.status >= 500
