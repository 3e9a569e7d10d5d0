"""What a box answers is a refusal that passes, or one that lasts."""

from __future__ import annotations

import asyncio

import pytest
from tests.scenarios.caller import story

from stoker_boxes.box_api import BUSY, BoxApi, BoxRefused
from stoker_boxes.table import Box


@story
@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_too_many_requests_and_faults_pass(status: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 2\r\nretry-after: 7\r\nconnection: close\r\n\r\n{}" % status)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    api = BoxApi("box2", Box(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    with pytest.raises(BoxRefused) as refused:
        await api.status()
    assert (refused.value.code, refused.value.retry_after) == (BUSY, 7.0)
    server.close()
