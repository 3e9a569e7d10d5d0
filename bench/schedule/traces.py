"""Requests that arrive at known times, and the files that they are read from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from stoker.domain.decision import Decision
from stoker_lab.load.replay import Arrival

BLOCK = 512
"""Tokens of one block of a prompt; Mooncake's traces use it."""
LOOP_GAP = 10.0
"""Seconds. A turn that follows the one before within that time is taken for one of a loop of tool calls."""


class TraceRequest(NamedTuple):
    """One request. Times are seconds."""

    at: float
    """When it arrives. With `after`: how long after that request has ended."""
    serve: str
    input_tokens: int = 0
    output_tokens: int = 0
    blocks: tuple[int, ...] = ()
    """Hashes of the prompt's blocks: two prompts with the same first ones share that prefix."""
    key: str = ""
    after: int | None = None
    """Position in the trace of the request whose end this one waits for: the client's previous turn."""
    seconds: float | None = None
    """How long it is served; None: that follows from its tokens."""
    session: str = ""
    """The session that it is a turn of: `s3`, or `s3/1` for a subagent of it. Empty: it stands alone."""
    is_call: bool = False
    """Its answer calls a tool: the next turn follows by itself. Else the session has ended, or a person reads."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests, and the fleet that they meet."""

    name: str
    slots: int
    swap_times: dict[str, float]
    """By serve: seconds from the stop of what is loaded to ready."""
    requests: Sequence[TraceRequest]
    places: int = 4
    """How many requests a loaded serve runs at the same time."""
    replicas: int = 1
    """In how many slots a serve may be loaded at the same time, where a policy makes use of it."""
    description: str = field(default="", compare=False)
    cached_tokens: int = 200_000
    """What the prefix cache of a loaded serve holds."""

    @property
    def is_open(self) -> bool:
        """Whether all times of arrival are known beforehand: no request follows another one's answer."""
        return all(request.after is None for request in self.requests)


def from_mooncake(lines: Iterable[str | bytes], serves: Sequence[str]) -> list[TraceRequest]:
    """Traces of Mooncake (`measure.load.replay`) name no model: a conversation picks one of `serves`. Its number is the
    first block after the shared one.

    Raises msgspec.ValidationError.
    """
    requests = []
    for line in lines:
        if not line.strip():
            continue
        one = msgspec.json.decode(line, type=Arrival)
        conversation = next(iter(one.hash_ids[1:2] or one.hash_ids), 0)
        serve = serves[conversation % len(serves)]
        blocks = tuple(one.hash_ids)
        requests.append(TraceRequest(one.timestamp / 1000, serve, one.input_length, one.output_length, blocks))
    return sorted(requests, key=lambda request: request.at)


def to_mooncake(requests: Iterable[TraceRequest]) -> list[bytes]:
    """Lines without line ends. The serve, the key and what follows what are lost: the format has no field for them."""
    return [
        msgspec.json.encode(Arrival(round(r.at * 1000, 3), r.input_tokens, r.output_tokens, list(r.blocks)))
        for r in requests
    ]


def from_decisions(decisions: Iterable[Decision]) -> list[TraceRequest]:
    """Of a decision log: the requests that a serve answered, from the first one's arrival on.

    The log holds no content: prompts share no block. A request of a session follows the end of the one before, unless
    it came earlier; it goes on with a loop if it came within LOOP_GAP.
    """
    served = sorted((d for d in decisions if d.serve and d.latency is not None), key=lambda d: d.at)
    start = served[0].at if served else 0.0
    requests: list[TraceRequest] = []
    last: dict[str, tuple[int, float]] = {}
    for number, d in enumerate(served):
        before, ended = last.get(d.session, (None, 0.0)) if d.session else (None, 0.0)
        after = before if d.at >= ended else None
        if after is not None and d.at - ended <= LOOP_GAP:
            requests[after] = requests[after]._replace(is_call=True)
        requests.append(
            TraceRequest(
                d.at - ended if after is not None else d.at - start, d.serve, d.input_tokens or 0, d.output_tokens or 0,
                key=d.key, after=after, seconds=max((d.latency or 0.0) - (d.queued or 0.0), 0.0),
                session=d.session or f"alone{number}",
            )
        )  # fmt: skip
        last[d.session] = number, d.at + (d.latency or 0.0)
    return requests
