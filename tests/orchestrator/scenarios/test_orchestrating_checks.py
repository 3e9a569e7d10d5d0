"""Every layer of an orchestrator's checks, through the whole program: the block that a layer refuses reaches nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orchestrator.scenarios.test_orchestrating import coder, orchestrator, text_of, whole
from tests.scenarios.caller import Talk, story
from tests.scenarios.plane import Plane, running

WRONG = {
    "names": "def second() -> str:\n    return os.seperator()\n",
    "commands": "def second() -> str:\n    import json\n    return os.sep\n",
    "validator": "def second() -> str:\n    return 'WRONG'\n",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    here: Path = tmp_path_factory.mktemp("checked")
    command = "python -c 'import sys; sys.exit(\"import json\" in sys.stdin.read())'"
    with running(
        *(coder(layer, here, wrong={2: [text]}) for layer, text in WRONG.items()),
        coder("judge", here),
        coder("unsure", here, verdicts=["Perhaps."] * 99),
        orchestrator("names-pair", "names", check_names=True),
        orchestrator("commands-pair", "commands", checks=[command]),
        orchestrator("validator-pair", "validator", validator="judge"),
        orchestrator("unsure-pair", "validator", validator="unsure", retries=1),
        orchestrator("broken-pair", "names", checks=["no-such-linter -"], retries=0),
        keeps_engines=True,
    ) as plane:
        yield plane


@pytest.mark.parametrize("layer", list(WRONG))
@story
async def test_a_block_that_a_layer_refuses_is_written_again(plane: Plane, layer: str) -> None:
    status, headers, answer = await whole(plane, f"{layer}-pair")
    assert status == 200, answer
    assert WRONG[layer] not in text_of(answer)
    assert "return os.sep\n" in text_of(answer)
    record = plane.decision(headers["x-request-id"])["orchestrated"]
    assert record["failures"] == {layer: 1}
    assert (record.get("validator_tokens", 0) > 0) == (layer == "validator")


@story
async def test_a_validator_that_gives_no_verdict_passes_nothing(plane: Plane) -> None:
    status, _, answer = await whole(plane, "unsure-pair")
    assert status == 422
    assert answer["error"]["code"] == "validation_failed"
    assert "nor [FAIL: reason]" in answer["error"]["message"]


@story
async def test_a_command_that_is_not_installed_is_named(plane: Plane) -> None:
    status, _, answer = await whole(plane, "broken-pair")
    assert status == 422
    assert "no-such-linter" in answer["error"]["message"]
    assert "install it" in answer["error"]["message"]


TIERS = """
[[tier]]
name = "writing"
serve = "writer"
[[tier]]
name = "judging"
serve = "judge"
classes = ["review"]
"""


def test_a_worker_and_a_validator_that_swap_with_each_other_finish_two_requests(tmp_path: Path) -> None:
    """They share a slot that holds one of them: the validator is asked when the worker has written everything."""
    here = '\nslot = "gpu0"'
    wrong = {2: [WRONG["validator"]]}
    serves = coder("writer", tmp_path, wrong=wrong, until_corrected=True) + here, coder("judge", tmp_path) + here
    with running(*serves, orchestrator("pair", "auto", validator="judging"), TIERS) as plane:

        async def both() -> list[tuple[int, Any, Any]]:
            asked = (whole(plane, "pair", "chat", ("x-stoker-class", "code-write")) for _ in range(2))
            return list(await asyncio.gather(*asked))

        for status, headers, answer in asyncio.run(both()):
            assert status == 200, answer
            assert "return os.sep\n" in text_of(answer)
            assert WRONG["validator"] not in text_of(answer)
            assert headers["x-stoker-serve"] == "writer"


@story
async def test_the_policy_may_stand_in_the_metadata_of_the_body(plane: Plane) -> None:
    async with Talk(plane, "names-pair", "write it", metadata={"stoker_policy": "simple"}) as talk:
        reply = await talk.reply()
    assert dict(reply.headers)["x-stoker-policy"] == "simple; caller"
