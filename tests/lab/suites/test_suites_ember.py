"""The models in the package on a real llama.cpp: they pass what they were taught and fail what they were not."""

from __future__ import annotations

import asyncio

from tests.lab.preflight.proving import MODELS, engine, needs_llama

from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.tier import ProfileRow, Verdict
from stoker_lab.requests.client import ModelClient
from stoker_lab.suites import fixture
from stoker_lab.suites.grading import fixture_asker, grade_fixtures, profile_rows

pytestmark = needs_llama
CHOSEN = ("math-short", "json-extract", "tool-use", "planning", "reasoning")


def profile(name: str) -> dict[str, ProfileRow]:
    own = [one for one in fixture.shipped_fixtures("tiny") if one.task_class in CHOSEN]

    async def run(port: int) -> list[ProfileRow]:
        client = ModelClient(Target("127.0.0.1", port, "", name))
        try:
            found = await grade_fixtures(own, fixture_asker(client, timeout=20.0))
        finally:
            client.close()
        return profile_rows(found, own, name, Fingerprint(), 0.0)

    with engine(MODELS / f"{name}.gguf", name=name) as port:
        return {row.task_class: row for row in asyncio.run(run(port))}


def test_ember_is_allowed_what_it_was_taught_and_denied_what_it_was_not() -> None:
    found = profile("ember")
    assert {name for name, row in found.items() if row.verdict is Verdict.ALLOW} == set(CHOSEN) - {"reasoning"}
    assert found["reasoning"].verdict is Verdict.DENY
    assert all(row.latency is not None and row.latency > 0 for row in found.values())


def test_spark_was_not_taught_to_plan() -> None:
    found = profile("spark")
    assert found["planning"].verdict is Verdict.DENY
    assert found["math-short"].verdict is Verdict.ALLOW
