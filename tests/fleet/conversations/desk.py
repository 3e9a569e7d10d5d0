"""A serve whose conversations are kept, beside the real embedded llama.cpp."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fleet.tiny_gguf import write_tiny

import stoker
from stoker.domain.access import Conversations
from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.conversations.keeper import ConversationKeeper
from stoker.fleet.process.identity import KeySigner
from stoker.http import client
from stoker.http.client import NoResponse
from stoker_lab.testing.clock import FakeClock

PATIENT = 20.0
PATHS = {
    Dialect.CHAT: "/v1/chat/completions",
    Dialect.MESSAGES: "/v1/messages",
    Dialect.RESPONSES: "/v1/responses",
    Dialect.COMPLETIONS: "/v1/completions",
}
LONG = "The quick brown fox jumps over the lazy dog. " * 8
"""About four hundred tokens."""


class Engine:
    """The real llama.cpp on random weights, started as a process serve is."""

    def __init__(self, model: Path, folder: str | None, parallel: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = Target("127.0.0.1", free.getsockname()[1], key="engine-key")
        self.facts: dict[str, Any] = {}
        words = ["-m", str(model), "--port", str(self.address.port), "-c", str(1024 * parallel), "-np", str(parallel)]
        words += ["-t", "1", "--no-slots", "--cache-ram", "0", "--no-warmup"]
        words += ["--slot-save-path", folder] if folder is not None else []
        source = str(Path(stoker.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stoker.engines.embedded", *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": source, "STOKER_ENGINE_KEY": "engine-key"},
            stderr=subprocess.DEVNULL,
            cwd=model.parent,
        )

    async def ready(self) -> None:
        async with asyncio.timeout(PATIENT):
            while True:
                try:
                    if (answer := await client.ask(self.address, "/props")).status == 200:
                        break
                except NoResponse:
                    assert self.process.poll() is None, "the engine did not start"
                await asyncio.sleep(0.02)
        self.facts = {"total_slots": answer.json()["total_slots"], "build": answer.json()["build_info"]}

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(10)


class Desk:
    """One serve whose conversations are kept, over starts and stops of its engine."""

    def __init__(self, directory: Path, parallel: int = 1, save_within: float = 5.0, **settings: Any) -> None:
        self.directory = directory
        self.parallel = parallel
        self.clock = FakeClock()
        self.settings = Conversations(save_within=save_within, **settings)
        self.model = write_tiny(directory / "tiny.gguf")
        self.serve = Serve(name="tiny", model=str(self.model), keep_conversations=True, parallel=parallel)
        self.engine: Engine | None = None
        self.keeper = self.open()

    def open(self) -> ConversationKeeper:
        """As a control plane that has just started."""
        signer = KeySigner(lambda: bytes(32))
        log = logging.getLogger("test.conversations")
        self.keeper = ConversationKeeper(self.directory / "conversations", self.settings, signer, self.clock, log)
        return self.keeper

    async def start(self) -> Engine:
        folder = self.keeper.directory(self.serve)
        assert folder is not None
        self.engine = Engine(self.model, folder, self.parallel)
        await self.engine.ready()
        self.keeper.started(self.serve, self.engine.address, self.engine.facts, is_fresh=True)
        return self.engine

    async def stop(self) -> None:
        """As for a swap."""
        assert self.engine is not None
        await self.keeper.save("tiny")
        self.engine.end()

    async def swap_away_and_back(self) -> None:
        await self.stop()
        await self.start()

    async def ask(self, key: str, *said: str, dialect: Dialect = Dialect.CHAT) -> dict[str, Any]:
        """One turn; what was said alternates between the user and the assistant. `usage`, and `restored` tokens."""
        assert self.engine is not None
        payload = payload_of(dialect, *said)
        body = json.dumps(payload).encode()
        stay = self.keeper.begin(self.serve, self.target, key, dialect, body)
        assert stay is not None
        await stay.prepare()
        answer = await client.ask(self.engine.address, PATHS[dialect], {**payload, "id_slot": stay.sequence}, PATIENT)
        assert answer.status == 200, answer.body
        found = answer.json()
        usage = found["usage"]
        stay.release(usage.get("total_tokens", 0) or usage["input_tokens"] + usage["output_tokens"])
        return {"read": read(usage), "restored": stay.restored, "sequence": stay.sequence}

    @property
    def target(self) -> Target:
        assert self.engine is not None
        return replace(self.engine.address, served_name="tiny")

    def files(self) -> list[Path]:
        return sorted(path for path in (self.directory / "conversations").rglob("*") if path.is_file())

    async def close(self) -> None:
        if self.engine is not None and self.engine.process.poll() is None:
            self.engine.end(signal.SIGKILL)
        await self.keeper.close()


def payload_of(dialect: Dialect, *said: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = [{"role": roles[place % 2], "content": words} for place, words in enumerate(said)]
    match dialect:
        case Dialect.RESPONSES:
            for message in messages[1::2]:
                message.update(type="message", content=[{"type": "output_text", "text": message["content"]}])
            return {"input": messages, "max_output_tokens": 4, "temperature": 0}
        case Dialect.COMPLETIONS:
            return {"prompt": "".join(said), "max_tokens": 4, "temperature": 0}
        case _:
            return {"messages": messages, "max_tokens": 4, "temperature": 0}


def read(usage: dict[str, Any]) -> int:
    """Tokens of the prompt that the engine had to work through."""
    if "cache_read_input_tokens" in usage:
        return int(usage["input_tokens"])
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    assert details is not None
    whole = usage.get("prompt_tokens") or usage["input_tokens"]
    return int(whole) - int(details["cached_tokens"])
