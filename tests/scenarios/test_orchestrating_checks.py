"""Every layer of an orchestrator's checks, through the whole program: the block that a layer refuses reaches nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.caller import story
from tests.scenarios.plane import Plane, running
from tests.scenarios.test_orchestrating import coder, orchestrator, text_of, whole

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
    assert "neither [PASS] nor [FAIL: reason]" in answer["error"]["message"]


@story
async def test_a_command_that_is_not_installed_is_named(plane: Plane) -> None:
    status, _, answer = await whole(plane, "broken-pair")
    assert status == 422
    assert "no-such-linter" in answer["error"]["message"]
    assert "install it" in answer["error"]["message"]
