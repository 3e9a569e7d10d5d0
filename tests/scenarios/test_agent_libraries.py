"""The Agents SDK and pydantic-ai with stored responses: their own sessions, with serves of two dialects, across a
restart, and with a second key.

They are installed into STOKER_AGENTS or `build/agents`; what cannot be installed is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.plane import Plane, running, serve

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
STORIES = Path(__file__).with_name("libraries")
WHERE = Path(os.environ.get("STOKER_AGENTS") or Path(__file__).resolve().parents[2] / "build" / "agents") / "libraries"
PACKAGES = ("openai-agents==0.24.0", "pydantic-ai-slim[openai]==2.68.0")
MODELS = {"gpt-native": "/v1/responses", "gpt-chatty": "/v1/chat/completions"}
"""Model names (the Agents SDK compacts with models of OpenAI's names only), and where their serves are asked."""
KEYS = "".join(
    f'[[front_door.keys]]\nname = "{name}"\nvalue = "env:KEY_OF_{name.upper()}"\n' for name in ("ann", "bob")
)
SECRETS = {f"KEY_OF_{name.upper()}": f"sk-{name}-0123456789abcdef" for name in ("ann", "bob")}
each_model = pytest.mark.parametrize("model", MODELS)

Tell = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python that has the libraries."""
    found = WHERE / "bin" / "python"
    packages = [sys.executable, "-m", "venv", str(WHERE)], [str(found), "-m", "pip", "install", "-q", *PACKAGES]
    if not (WHERE / "installed").exists():
        for command in packages:
            done = subprocess.run(command, capture_output=True, text=True, timeout=500)
            if done.returncode:
                pytest.skip(f"{' '.join(PACKAGES)} cannot be installed: {done.stderr.strip()[-300:]}")
        (WHERE / "installed").touch()
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    serves = (
        serve("native", aliases=["gpt-native"]),
        serve("chatty", dialects=["chat"], slot="gpu1", aliases=["gpt-chatty"]),
    )
    slots = "[slots.gpu0]\n[slots.gpu1]"
    with running(*serves, KEYS, "[responses]\nstore = true", slots=slots, environment=SECRETS) as plane:
        yield plane


@pytest.fixture
def tell(plane: Plane, python: Path) -> Tell:
    """Runs a story of a library: `tell(library, model, step, *ids, key=...)`."""

    def run(library: str, model: str, step: str, *ids: str, key: str = "ann") -> dict[str, Any]:
        environment = {**os.environ, "KEY": SECRETS[f"KEY_OF_{key.upper()}"]}
        base = f"http://127.0.0.1:{plane.port}/v1"
        command = [str(python), str(STORIES / f"{library}_story.py"), base, model, step, *ids]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


def last_asked(plane: Plane, model: str) -> str:
    return str(plane.received(model.removeprefix("gpt-"), MODELS[model])[-1]["body"])


def restart(plane: Plane) -> None:
    plane.signal(15)
    assert plane.exit_code() == 0
    plane.start()


@each_model
def test_a_session_that_the_server_keeps_goes_on_after_a_restart(plane: Plane, tell: Tell, model: str) -> None:
    first = tell("agents_sdk", model, "conversation")
    assert [text for text in first["items"] if "question" in text] == ["a first question", "a second question"]
    restart(plane)
    then = tell("agents_sdk", model, "conversation", first["id"])
    assert then["items"][: len(first["items"])] == first["items"]
    assert all(
        text in last_asked(plane, model) for text in ("a first question", "a second question", "a third question")
    )


@each_model
def test_a_response_is_continued_by_its_id_after_a_restart(plane: Plane, tell: Tell, model: str) -> None:
    first = tell("agents_sdk", model, "previous")
    restart(plane)
    assert "error" not in tell("agents_sdk", model, "previous", first["id"])
    assert "a second question" in last_asked(plane, model)


@each_model
def test_a_streamed_turn_joins_its_session(tell: Tell, model: str) -> None:
    found = tell("agents_sdk", model, "streamed")
    assert found["events"]
    assert found["items"] == ["a streamed question", found["answer"]]


@each_model
def test_a_session_is_compacted_and_goes_on(plane: Plane, tell: Tell, model: str) -> None:
    found = tell("agents_sdk", model, "compaction")
    assert "error" not in found, found
    assert "compaction" in found["kinds"]
    assert len(found["kinds"]) < found["before"]
    assert "Summary of the conversation so far" in last_asked(plane, model)


@each_model
def test_pydantic_ai_finds_the_response_to_continue_and_names_one(plane: Plane, tell: Tell, model: str) -> None:
    found = tell("pydantic_ai", model, "auto")
    assert found["id"].startswith("resp_")
    assert "a first question" in last_asked(plane, model)
    restart(plane)
    assert "answer" in tell("pydantic_ai", model, "named", found["id"])
    assert "a second question" in last_asked(plane, model)


@each_model
def test_a_second_key_sees_nothing_of_the_first_ones(tell: Tell, model: str) -> None:
    talk, response = tell("agents_sdk", model, "conversation"), tell("agents_sdk", model, "previous")
    assert "404" in tell("agents_sdk", model, "conversation", talk["id"], key="bob")["error"]
    assert "not found" in tell("agents_sdk", model, "previous", response["id"], key="bob")["error"]
    assert "previous_response_not_found" in tell("pydantic_ai", model, "named", response["id"], key="bob")["error"]
