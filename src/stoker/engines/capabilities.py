"""What an engine can do that its kind alone does not tell. Probed once per start, and stored as facts.

speaks        the dialects, among those that can be translated, whose paths exist (an older build has fewer)
system_turns  `keep` if its template allows a system message in mid-conversation, else `append`; for engines that tell
"""

from __future__ import annotations

import asyncio
from typing import Any

from stoker.domain.dialect import TARGETS
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.engines.record import Facts
from stoker.engines.registry import engine_of
from stoker.http import client
from stoker.http.client import NoResponse

TIMEOUT = 0.5
"""Seconds that the probe may take, so that a silent engine does not delay its start."""
_ABSENT = (404, 405, 501)
_MARKS = ("mark-one", "mark-two", "mark-three", "mark-four")
_ROLES = ("user", "assistant", "system", "user")


async def capabilities(serve: Serve, address: Target) -> Facts:
    """The facts. Never raises; a probe without an answer in time is left out."""
    asked: list[Any] = []
    if serve.asks_dialects:
        asked.append(_speaks(serve, address))
    if page := engine_of(serve.engine).template_page:
        asked.append(_system_turns(address, page))
    facts: Facts = {}
    for found in await asyncio.gather(*asked):
        facts |= found
    return facts


async def _speaks(serve: Serve, address: Target) -> Facts:
    """Posts an empty request to each path: an engine that has the path reports a missing field. Generates nothing."""
    statuses = await asyncio.gather(*(_status(address, dialect.spec.path) for dialect in TARGETS))
    found = dict(zip(TARGETS, statuses, strict=True))
    if None in statuses or all(status in _ABSENT for status in statuses):
        return {}
    there = {dialect for dialect, status in found.items() if status not in _ABSENT}
    return {"speaks": ",".join(sorted(serve.dialects.difference(TARGETS) | there))}


async def _status(address: Target, path: str) -> int | None:
    try:
        return (await client.ask(address, path, {}, TIMEOUT)).status
    except NoResponse:
        return None


async def _system_turns(address: Target, page: str) -> Facts:
    turns = [{"role": role, "content": mark} for role, mark in zip(_ROLES, _MARKS, strict=True)]
    try:
        answer = await client.ask(address, page, {"messages": turns}, TIMEOUT)
    except NoResponse:
        return {}
    found = answer.json() if answer.status == 200 else None
    prompt = found.get("prompt") if isinstance(found, dict) else None
    if not isinstance(prompt, str):  # its template refuses such a conversation
        return {"system_turns": "append"}
    places = [prompt.find(mark) for mark in _MARKS]
    return {"system_turns": "keep" if -1 not in places and places == sorted(places) else "append"}
