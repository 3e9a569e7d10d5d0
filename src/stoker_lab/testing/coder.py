"""A scripted worker and validator for orchestrators: `python -m stoker_lab.testing.coder --port N --id NAME [options]`.

As a worker it writes a fixed list of blocks, some of them wrong at first. It continues where the transcript ends, and
corrects a block on request. As a validator it fails blocks that contain a given word.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKER = "<<END-OF-BLOCK>>"
_CORRECTION = " failed its "
_NOT_ACCEPTED = "was not accepted"


@dataclass
class CoderScript:
    """What the coder writes, and in which form."""

    id: str = "coder"
    blocks: Sequence[str] = ()
    """The right blocks, each with its line end."""
    wrong: dict[int, list[str]] = field(default_factory=dict)
    """Wrong blocks, by the number of a block from 0: one for each attempt before the right one."""
    until_corrected: bool = False
    """Whether only a correction ends an attempt. False: every time that the block is written counts as one."""
    language: str = "python"
    fences: Sequence[str | None] = ()
    """The label of each block's fence; then each block has its own, and None is no fence. Empty: all are in one fence,
    of `language`.
    """
    seconds_per_block: float = 0.0
    pieces: int = 8
    """In how many pieces a block is streamed."""
    preface: str = ""
    ends_blocks: bool = True
    """Whether blocks end with the marker."""
    hangs_at: int | None = None
    """The block at which it stops writing."""
    dies_at: int | None = None
    """The block at which the connection breaks."""
    fails_blocks_with: str = "WRONG"
    """As a validator: a block with this word fails."""
    verdicts: list[str] = field(default_factory=list)
    """As a validator: answers to give first, whatever is asked."""
    seconds_per_verdict: float = 0.0


class Coder:
    """The server. `requests` holds the bodies that came in; `open` counts replies under way."""

    def __init__(self, script: CoderScript) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.open = 0
        self.left = 0
        """Replies whose client left."""
        self.port = 0
        self._attempts: dict[int, int] = {}
        self._server: asyncio.Server | None = None

    def restart(self, script: CoderScript) -> None:
        """Replaces the script, and begins at its first attempt."""
        self.script = script
        self.requests.clear()
        self._attempts.clear()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.left += 1
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        if method == "GET":
            document: dict[str, Any] = {"data": [{"id": self.script.id, "object": "model"}], "status": "ok"}
            _reply(writer, document if path.endswith("models") else {"status": "ok"})
            return True
        if not path.endswith("/chat/completions"):
            _reply(writer, {"error": {"message": "not found"}}, "404 Not Found")
            return True
        asked = json.loads(body)
        self.requests.append(asked)
        self.open += 1
        try:
            if asked.get("stream"):
                return await self._stream(asked, writer)
            await asyncio.sleep(self.script.seconds_per_verdict)
            _reply(writer, _whole(self.script.id, self._verdict(asked)))
            return True
        finally:
            self.open -= 1

    # -- the worker --------------------------------------------------------------------------------------------------

    async def _stream(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        tokens = 0
        async for text in self._answer(asked):
            if text is None:
                await writer.drain()
                return False
            tokens += 1
            _chunk(
                writer, {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}, self.script.id
            )
            await writer.drain()
            if writer.transport.is_closing():
                raise ConnectionError("the reader is gone")
        usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
        _chunk(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, self.script.id)
        _chunk(writer, {"choices": [], "usage": usage}, self.script.id)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        return True

    async def _answer(self, asked: dict[str, Any]) -> AsyncIterator[str | None]:
        script, messages = self.script, asked["messages"]
        done = sum(_text(one).count(MARKER) for one in messages if one["role"] == "assistant")
        last = _text(messages[-1])
        if script.until_corrected and _CORRECTION in last:
            self._attempts[done] = self._attempts.get(done, 0) + 1
        if done == 0 and script.preface and _CORRECTION not in last:
            yield script.preface
        for number in range(done, len(script.blocks)):
            if number == script.hangs_at:
                await asyncio.sleep(3600)
            if number == script.dies_at:
                yield None
                return
            text = self._block(number)
            own_fence = script.fences[number] if script.fences else None
            if own_fence is not None:
                text = f"```{own_fence}\n{text}"
            elif not script.fences and number == done:
                text = f"```{script.language}\n{text}"
            step = max(1, -(-len(text) // script.pieces))
            for at in range(0, len(text), step):
                if script.seconds_per_block:
                    await asyncio.sleep(script.seconds_per_block / script.pieces)
                yield text[at : at + step]
            if script.ends_blocks:
                yield MARKER + "\n"
            if own_fence is not None:
                yield "```\n"
        if done < len(script.blocks) and not script.fences:
            yield "```\n"

    def _block(self, number: int) -> str:
        wrong = self.script.wrong.get(number, [])
        attempt = self._attempts.get(number, 0)
        if not self.script.until_corrected:
            self._attempts[number] = attempt + 1
        return wrong[attempt] if attempt < len(wrong) else self.script.blocks[number]

    # -- the validator -----------------------------------------------------------------------------------------------

    def _verdict(self, asked: dict[str, Any]) -> str:
        if self.script.verdicts:
            return self.script.verdicts.pop(0)
        text = "\n".join(_text(one) for one in asked["messages"])
        word = self.script.fails_blocks_with
        return f"[FAIL: it holds {word}]" if word in text else "[PASS]"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _reply(writer: asyncio.StreamWriter, document: dict[str, Any], status: str = "200 OK") -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _whole(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}


def _chunk(writer: asyncio.StreamWriter, document: dict[str, Any], model: str) -> None:
    event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model, **document}
    data = b"data: %b\n\n" % json.dumps(event).encode()
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def main() -> int:
    """Run until SIGTERM. The script is read as JSON from `--script`."""
    parser = argparse.ArgumentParser(prog="python -m stoker_lab.testing.coder", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--id", default="coder")
    parser.add_argument("--script", help="a JSON file with the attributes of CoderScript")
    options = parser.parse_args()
    given = {} if options.script is None else json.loads(Path(options.script).read_text(encoding="utf-8"))
    given["wrong"] = {int(number): texts for number, texts in given.get("wrong", {}).items()}
    asyncio.run(_run(Coder(CoderScript(**{**given, "id": options.id})), options.port))
    return 0


async def _run(coder: Coder, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await coder.start(port)
    await stopped.wait()
    await coder.close()


if __name__ == "__main__":
    sys.exit(main())
