"""A control plane whose worker and validator are scripted and run in this process, so that each request has its own
script.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from bench.orchestrating.blocks import BLOCKS, Fault
from bench.processes import free_port
from bench.up import Up
from stoker_lab.testing.coder import Coder, CoderScript

SERVE = """\
[[serve]]
name = "{name}"
engine = "openai"
model = "{name}"
base_url = "http://127.0.0.1:{port}/v1"
parallel = 8
dialects = ["chat"]
"""
ORCHESTRATOR = """\
[orchestrator.{name}]
worker = "worker"
policy = "block_by_block"
python = "{python}"
{keys}
"""


class StreamedAnswer(NamedTuple):
    """All that came in for one request."""

    seconds: float
    status: int
    received: str
    request: str

    @property
    def is_complete(self) -> bool:
        return self.status == 200 and "data: [DONE]" in self.received and '"error"' not in self.received

    @property
    def text(self) -> str:
        """What the model wrote."""
        events = (line[6:] for line in self.received.splitlines() if line.startswith("data: {"))
        choices = [choice for event in events for choice in json.loads(event).get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)


class CoderThread:
    """Scripted coders in a thread of their own."""

    def __init__(self) -> None:
        self.worker, self.validator = Coder(CoderScript("worker")), Coder(CoderScript("validator"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for coder in (self.worker, self.validator):
            asyncio.run_coroutine_threadsafe(coder.start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        for coder in (self.worker, self.validator):
            await coder.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # their transports close in the next round

    def restart(self, coder: Coder, script: CoderScript) -> None:
        async def restart() -> None:
            coder.restart(script)

        asyncio.run_coroutine_threadsafe(restart(), self._loop).result(10)


class ScriptedPlane:
    """`stoker up` in front of them. Use as a context manager."""

    def __init__(self, folder: Path, orchestrators: dict[str, str]) -> None:
        """`orchestrators`: by name, further keys of their tables."""
        self._folder, self._orchestrators = folder, orchestrators
        self._coders = CoderThread()
        self.port = free_port()

    def __enter__(self) -> Self:
        self._coders.__enter__()
        parts = [f'[front_door]\nport = {self.port}\n[paths]\nstate = "state"\nlogs = "logs"\n']
        coders = (("worker", self._coders.worker), ("validator", self._coders.validator))
        parts += [SERVE.format(name=name, port=coder.port) for name, coder in coders]
        parts += [
            ORCHESTRATOR.format(python=sys.executable, name=name, keys=keys)
            for name, keys in self._orchestrators.items()
        ]
        try:
            self._up = Up(self._folder, "".join(parts), self.port, {})
        except BaseException:
            self._coders.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._up.__exit__()
        self._coders.__exit__()

    def script(self, faults: dict[int, Fault], block: float = 0.0, verdict: float = 0.0, pieces: int = 8) -> None:
        """What worker and validator do next. Times are seconds."""
        texts = [one.text for one in BLOCKS]
        wrong = {number: [fault.text] for number, fault in faults.items()}
        fences = [one.fence for one in BLOCKS]
        worker = CoderScript(
            "worker", texts, wrong, until_corrected=True, fences=fences, seconds_per_block=block, pieces=pieces
        )
        self._coders.restart(self._coders.worker, worker)
        self._coders.restart(self._coders.validator, CoderScript("validator", seconds_per_verdict=verdict))

    def script_one(self, fence: str | None, text: str) -> None:
        """The worker writes this block, however often it is asked."""
        self._coders.restart(self._coders.worker, CoderScript("worker", [text], fences=[fence]))

    def ask(self, model: str, policy: str = "block_by_block", task: str = "Write it.") -> StreamedAnswer:
        body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": task}]})
        headers = {"content-type": "application/json", "x-stoker-policy": policy}
        front = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        began = time.perf_counter()
        front.request("POST", "/v1/chat/completions", body, headers)
        reply = front.getresponse()
        received = reply.read().decode()
        took = time.perf_counter() - began
        front.close()
        return StreamedAnswer(took, reply.status, received, reply.headers["x-request-id"])

    def decisions(self, count: int) -> dict[str, dict[str, Any]]:
        """What was orchestrated, by request."""
        time.sleep(0.5)  # they are written by a thread
        front = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        front.request("GET", f"/admin/decisions?limit={count}")
        kept = json.loads(front.getresponse().read())["decisions"]
        front.close()
        return {one["id"]: one["orchestrated"] for one in kept if one.get("orchestrated")}

    def cpu_seconds(self) -> float:
        """Of the control plane so far, all its threads."""
        fields = Path(f"/proc/{self._up.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
