"""The fixtures of code-write, answered by a model that ships: alone, with checks, and with itself as the validator."""

from __future__ import annotations

import asyncio
import json
import time
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.figures import table
from bench.processes import free_port
from bench.routing.resample import figure
from bench.up import Up
from stoker.domain.lease import Target
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.statistics.stats import wilson
from stoker_lab.suites.fixture import Fixture, shipped_fixtures
from stoker_lab.suites.grading import GradedFixture, GradeOutcome, fixture_asker, grade_fixture

VARIANTS = {"alone": 'policy = "simple"', "checked": 'policy = "block_by_block"',
            "validated": 'policy = "block_by_block"\nvalidator = "MODEL"'}  # fmt: skip
CONFIG = """\
[front_door]
port = {port}
[paths]
state = "state"
logs = "logs"
[[serve]]
name = "{model}"
engine = "llama.cpp"
embedded = true
model = "{weights}"
context = 2048
parallel = 2
threads = 1
"""


class ModelRun(NamedTuple):
    """One variant over all fixtures."""

    graded: list[GradedFixture]
    tokens: list[int]
    """Output of the worker and all tokens of the validator, by fixture."""
    seconds: float

    @property
    def passed(self) -> int:
        return sum(one.outcome is GradeOutcome.PASSED for one in self.graded)

    @property
    def errors(self) -> int:
        """Requests that ended in an error: nothing passed the checks."""
        return sum(not one.is_sample for one in self.graded)


def run_real(folder: Path, model: str, limit: int, max_tokens: int) -> dict[str, ModelRun]:
    port = free_port()
    weights = resources.files("stoker") / "models" / f"{model}.gguf"
    parts = [CONFIG.format(port=port, model=model, weights=weights)]
    parts += [
        f'[orchestrator.{name}]\nworker = "{model}"\nretries = 2\n{keys.replace("MODEL", model)}\n'
        for name, keys in VARIANTS.items()
    ]
    fixtures = [one for one in shipped_fixtures() if one.task_class == "code-write"][:limit]
    with Up(folder, "".join(parts), port, {}):
        return {name: asyncio.run(_run(name, port, fixtures, max_tokens)) for name in VARIANTS}


async def _run(name: str, port: int, fixtures: list[Fixture], max_tokens: int) -> ModelRun:
    client = ModelClient(Target("127.0.0.1", port, "", name, None))
    ask = fixture_asker(client)
    graded, tokens, began = [], [], time.perf_counter()
    spent: list[int] = []

    async def ask_and_count(fixture: Fixture) -> ModelReply:
        bounded: Fixture = Fixture(
            fixture.id, fixture.task_class, {**fixture.request, "max_tokens": max_tokens}, fixture.check
        )
        reply = await ask(bounded)
        spent.append(await _tokens(port, reply))
        return reply

    try:
        for fixture in fixtures:
            graded.append(await grade_fixture(fixture, ask_and_count))
            tokens.append(spent[-1])
    finally:
        client.close()
    return ModelRun(graded, tokens, time.perf_counter() - began)


async def _tokens(port: int, reply: ModelReply) -> int:
    """From the newest decision: an error has no usage."""
    await asyncio.sleep(0.05)
    record = await asyncio.to_thread(_newest_decision, port)
    orchestrated = record.get("orchestrated") or {}
    return int(record.get("output_tokens") or 0) + int(orchestrated.get("validator_tokens") or 0)


def _newest_decision(port: int) -> dict[str, Any]:
    import http.client

    front = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    front.request("GET", "/admin/decisions?limit=1")
    found: dict[str, Any] = json.loads(front.getresponse().read())["decisions"][0]
    front.close()
    return found


def show_real(runs: dict[str, ModelRun], seed: int) -> str:
    rows = []
    for name, run in runs.items():
        n = len(run.graded)
        low, high = wilson(run.passed, n)
        mean = figure([run.tokens], lambda drawn: sum(drawn) / len(drawn), Random(seed))
        spread = "-" if mean.low is None else f"{mean.value:.0f} ({mean.low:.0f} to {mean.high:.0f})"
        rows.append([name, f"{run.passed} of {n}", f"{100 * low:.0f} to {100 * high:.0f} %", str(run.errors), spread,
                     f"{run.seconds / n:.2f}"])  # fmt: skip
    head = ["", "right", "95 %", "errors", "tokens for each (95 %)", "seconds for each"]
    return table(head, rows)
