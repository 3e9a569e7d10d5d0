"""How fast many replies at once come: the decode check of a soak."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from typing import Any

from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.soak.soak import DecodeResult

_STORY = "Tell me a long story. Number {number}."
_TIMEOUT = 600.0


class DecodeCheck:
    """Asks `concurrency` times at once for `tokens` tokens each."""

    def __init__(self, client: ModelClient, concurrency: int, tokens: int) -> None:
        self._client = client
        self._concurrency = concurrency
        self._tokens = tokens
        self._ignores_eos = True

    async def run(self) -> DecodeResult:
        """Never raises but on cancel. Asks the engine not to stop early, if it supports that."""
        replies = await self._all()
        if self._ignores_eos and all(one.timing.failure == "http_400" for one in replies):
            self._ignores_eos = False
            replies = await self._all()
        return decode_result(replies)

    async def _all(self) -> list[ModelReply]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(number)) for number in range(self._concurrency)]
        return [task.result() for task in tasks]

    async def _one(self, number: int) -> ModelReply:
        more: Mapping[str, Any] = {"ignore_eos": True} if self._ignores_eos else {}
        document = {
            "messages": [{"role": "user", "content": _STORY.format(number=number + 1)}],
            "max_tokens": self._tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        return await self._client.ask(document, timeout=_TIMEOUT)


def decode_result(replies: list[ModelReply]) -> DecodeResult:
    """The tokens of all, from the first request's beginning to the last one's end."""
    failed = [one.timing.failure for one in replies if not one.timing.is_ok]
    good = [one.timing for one in replies if one.timing.is_ok]
    counts = [timed.tokens.output for timed in good]
    paces = [timed.tpot for timed in good if timed.tpot is not None]
    rate = None
    if good and not failed and all(count is not None for count in counts):
        took = max(timed.ended for timed in good) - min(timed.t0 for timed in good)
        rate = sum(count for count in counts if count is not None) / took if took > 0 else None
    return DecodeResult(rate, statistics.median(paces) if paces else None, len(failed), failed[0] if failed else "")
