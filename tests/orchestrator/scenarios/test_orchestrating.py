"""A model name behind which a worker writes block by block: what clients get, and what is left after a fault."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from tests.orchestrator.scenarios.orchestrated_crashes import STEPS, die_at
from tests.scenarios.caller import PATHS, STREAMING, Talk, errors, story
from tests.scenarios.plane import Plane, poll, running, serve, until

from stoker_lab.testing.client import FramingError
from stoker_orchestrator.memory.scratchpad import read_scratchpad

BLOCKS = [
    "import os\n",
    "def first(x: int) -> int:\n    return x + 1\n",
    "def second() -> str:\n    return os.sep\n",
    "class Third:\n    def run(self) -> None:\n        pass\n",
]
BROKEN = "def second( -> str:\n    return 1\n"
WHOLE = "```python\n" + "\n".join(BLOCKS) + "```\n"


def coder(name: str, directory: Path, **script: object) -> str:
    """A [[serve]] table for the scripted coder."""
    path = directory / f"{name}.json"
    path.write_text(json.dumps({"blocks": BLOCKS, **script}))
    command = [
        sys.executable,
        "-m",
        "stoker_lab.testing.coder",
        "--port",
        "{port}",
        "--id",
        name,
        "--script",
        str(path),
    ]
    return serve(name, cmd=command, slot=None, dialects=["chat"])


def orchestrator(name: str, worker: str, **keys: object) -> str:
    given = {"worker": worker, "policy": "block_by_block", "check_names": False, **keys}
    return "\n".join([f"[orchestrator.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in given.items())])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    here = tmp_path_factory.mktemp("coders")
    (here / "project").mkdir()
    with running(
        coder("good", here),
        coder("mends", here, wrong={2: [BROKEN]}),
        coder("never", here, wrong={2: [BROKEN] * 99}),
        coder("slow", here, seconds_per_block=0.3),
        coder("hangs", here, hangs_at=2),
        coder("dies", here, dies_at=2),
        orchestrator("pair", "good"),
        orchestrator("mending", "mends"),
        orchestrator("failing", "never", retries=1),
        orchestrator("slowly", "slow"),
        orchestrator("hanging", "hangs", block_timeout="500ms", retries=0),
        orchestrator("dying", "dies"),
        orchestrator("writing", "good", project=str(here / "project")),
        keeps_engines=True,
    ) as plane:
        yield plane


async def whole(plane: Plane, model: str, dialect: str = "chat", *headers: tuple[str, str]) -> tuple[int, Any, Any]:
    """Status, headers and JSON of a request that is not streamed."""
    async with Talk(plane, model, "write it", dialect, headers=headers) as talk:
        reply = await talk.reply()
    return reply.status, dict(reply.headers), json.loads(reply.body)


def text_of(answer: Any) -> str:
    return str(answer["choices"][0]["message"]["content"])


def scratchpad(plane: Plane, request: str) -> Any:
    return read_scratchpad(plane.state / "orchestrator" / f"{request}.md")


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_every_dialect_gets_the_blocks_streamed(plane: Plane, dialect: str) -> None:
    async with Talk(plane, "pair", "write it", dialect, stream=True) as talk:
        head = await talk.opened()
        assert dict(head.headers)["x-stoker-orchestrator"] == "pair"
        assert await talk.text() == WHOLE


@pytest.mark.parametrize("dialect", sorted(PATHS))
@story
async def test_every_dialect_gets_the_blocks_as_one_answer(plane: Plane, dialect: str) -> None:
    status, headers, answer = await whole(plane, "pair", dialect)
    assert status == 200, answer
    assert headers["x-stoker-policy"] == "block_by_block"
    assert "class Third" in json.dumps(answer)


@story
async def test_a_broken_block_is_written_again_and_never_sent(plane: Plane) -> None:
    async with Talk(plane, "mending", "write it", stream=True) as talk:
        head = dict((await talk.opened()).headers)
        assert await talk.text() == WHOLE
    record = await asyncio.to_thread(plane.decision, head["x-request-id"])
    assert record["orchestrated"]["failures"] == {"structure": 1}
    assert record["orchestrated"]["blocks"] == 4
    assert record["orchestrated"]["wasted_tokens"] > 0
    page = scratchpad(plane, head["x-request-id"])
    assert page.outcome == "finished"
    assert [block.text for block in page.committed] == BLOCKS
    assert "structure failed: line 1: invalid syntax" in page.text


@story
async def test_a_block_that_never_passes_is_an_error_with_what_passed_before(plane: Plane) -> None:
    status, headers, answer = await whole(plane, "failing")
    error = answer["error"]
    assert (status, error["code"], error["block"]) == (422, "validation_failed", 3)
    assert error["committed"] == "```python\n" + "\n".join(BLOCKS[:2]) + "```\n"
    assert f"stoker orchestrator show {headers['x-request-id']}" in error["message"]
    assert "line 1: invalid syntax" in error["message"]


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@story
async def test_in_a_stream_the_error_comes_after_what_passed(plane: Plane, dialect: str) -> None:
    async with Talk(plane, "failing", "write it", dialect, stream=True) as talk:
        found = await talk.rest()
    [error] = errors(found, dialect)
    assert error["code"] == "validation_failed"
    assert "second" not in json.dumps([event.data for event in found[:-1]])


@story
async def test_a_worker_that_hangs_is_given_up_after_its_time(plane: Plane) -> None:
    status, _, answer = await whole(plane, "hanging")
    assert status == 422
    assert "the worker wrote nothing for 0.5" in answer["error"]["message"]


@story
async def test_what_a_dying_worker_had_committed_is_kept_and_a_repeated_request_goes_on(plane: Plane) -> None:
    key = ("idempotency-key", "the same")
    status, headers, answer = await whole(plane, "dying", "chat", key)
    assert (status, answer["error"]["code"]) == (502, "upstream_broke")
    first = scratchpad(plane, headers["x-request-id"])
    assert [block.text for block in first.committed] == BLOCKS[:2]
    status, headers, answer = await whole(plane, "dying", "chat", key)
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    assert record["orchestrated"]["resumed"] == 2


@story
async def test_a_finished_request_with_the_same_key_is_answered_from_its_blocks(plane: Plane) -> None:
    key = ("idempotency-key", "finished")
    _, _, answer = await whole(plane, "pair", "chat", key)
    status, headers, again = await whole(plane, "pair", "chat", key)
    assert (status, text_of(again)) == (200, text_of(answer))
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    assert record["orchestrated"]["generations"] == 0


@story
async def test_another_body_with_the_same_key_is_refused(plane: Plane) -> None:
    key = ("idempotency-key", "another body")
    await whole(plane, "pair", "chat", key)
    async with Talk(plane, "pair", "write something else", headers=(key,)) as talk:
        reply = await talk.reply()
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (409, "not_resumable")


@pytest.mark.parametrize("blocks", [0, 1, 2])
@story
async def test_a_client_that_leaves_ends_the_worker_and_gives_back_its_lease(plane: Plane, blocks: int) -> None:
    async with Talk(plane, "slowly", "write it", stream=True) as talk:
        for _ in range(blocks and blocks + 1):
            await talk.event()
        await until(lambda: plane.serve("slow")["in_flight"], "the worker is at work")
    await until(plane.is_settled, "nothing is held any more")


@story
async def test_two_requests_share_a_worker_with_one_place(plane: Plane) -> None:
    answers = await asyncio.gather(*(whole(plane, "slowly") for _ in range(3)))
    assert [text_of(answer) for _, _, answer in answers] == [WHOLE] * 3


@story
async def test_tools_and_forms_are_left_to_the_worker_and_the_reply_says_so(plane: Plane) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    for fields, why in (({"tools": [tool]}, "tools"), ({"response_format": {"type": "json_object"}}, "format")):
        async with Talk(plane, "pair", "write it", **fields) as talk:
            reply = await talk.reply()
        assert dict(reply.headers)["x-stoker-policy"] == f"simple; {why}"
        assert dict(reply.headers)["x-stoker-serve"] == "good"


@story
async def test_the_caller_chooses_the_policy_and_a_wrong_one_is_refused(plane: Plane) -> None:
    _, headers, _ = await whole(plane, "pair", "chat", ("x-stoker-policy", "simple"))
    assert headers["x-stoker-policy"] == "simple; caller"
    status, _, answer = await whole(plane, "pair", "chat", ("x-stoker-policy", "sometimes"))
    assert (status, answer["error"]["code"]) == (400, "unknown_policy")


@story
async def test_an_orchestrator_is_a_name_like_any_other(plane: Plane) -> None:
    _, listed = await asyncio.to_thread(plane.ask, "GET", "/v1/models")
    assert "pair" in [one["id"] for one in listed["data"]]
    _, one = await asyncio.to_thread(plane.ask, "GET", "/v1/models/pair")
    assert one["stoker"]["worker"] == "good"


def test_the_openai_sdk_gets_the_blocks_streamed_and_not_and_the_error(plane: Plane) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none") as client:
        asked: Any = [{"role": "user", "content": "write it"}]
        answer = client.chat.completions.create(model="pair", messages=asked)
        assert answer.choices[0].message.content == WHOLE
        stream = client.chat.completions.create(model="pair", messages=asked, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == WHOLE
        assert client.responses.create(model="pair", input="write it").output_text == WHOLE
        with pytest.raises(openai.UnprocessableEntityError) as failure:
            client.chat.completions.create(model="failing", messages=asked)
        assert failure.value.code == "validation_failed"
        with pytest.raises(openai.APIError, match="failed its structure check"):
            list(client.chat.completions.create(model="failing", messages=asked, stream=True))


def test_the_anthropic_sdk_gets_the_blocks_streamed_and_not_and_the_error(plane: Plane) -> None:
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none") as client:
        asked: Any = [{"role": "user", "content": "write it"}]
        answer: Any = client.messages.create(model="pair", max_tokens=4000, messages=asked)
        assert answer.content[0].text == WHOLE
        with client.messages.stream(model="pair", max_tokens=4000, messages=asked) as stream:
            assert "".join(stream.text_stream) == WHOLE
        with pytest.raises(anthropic.UnprocessableEntityError, match="block 3 failed its structure check"):
            client.messages.create(model="failing", max_tokens=4000, messages=asked)


@pytest.mark.parametrize("seen", [0, 1, 2, 3])
def test_a_control_plane_that_is_killed_leaves_whole_blocks_and_the_next_one_goes_on(tmp_path: Path, seen: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    named = ["# file: one.py\n" + BLOCKS[0], *BLOCKS[1:]]
    tables = (
        coder("slow", tmp_path, seconds_per_block=0.1, blocks=named),
        orchestrator("slowly", "slow", project=str(project)),
    )
    with running(*tables) as plane:
        asyncio.run(_read_until(plane, seen))
        assert plane.process is not None
        plane.process.kill()
        plane.process.wait()
        saved = [read_scratchpad(path) for path in (plane.state / "orchestrator").glob("*.md")]
        assert all(block.text in named for page in saved for block in page.committed)
        plane.start()
        status, _, answer = asyncio.run(whole(plane, "slowly", "chat", ("idempotency-key", "k")))
        assert status == 200, answer
        assert text_of(answer) == "```python\n" + "\n".join(named) + "```\n"
        assert (project / "one.py").read_text() == "\n".join(named)
        poll(plane.is_settled, "nothing is held")


async def _read_until(plane: Plane, seen: int) -> None:
    async with Talk(plane, "slowly", "write it", headers=(("idempotency-key", "k"),)):
        pads = plane.state / "orchestrator"

        def committed() -> int:
            with contextlib.suppress(ValueError):
                return max((len(read_scratchpad(path).committed) for path in pads.glob("*.md")), default=-1)
            return -1

        await until(lambda: committed() >= seen, f"{seen} blocks are committed")


TIERS = """
[[tier]]
name = "tiny"
serve = "good"
[router.class.code-write]
orchestrator = "pair"
"""


def test_auto_goes_to_the_orchestrator_of_its_class_and_auto_works_for_an_orchestrator(tmp_path: Path) -> None:
    chosen = orchestrator("choosing", "auto", policy="by-class")
    with running(coder("good", tmp_path), orchestrator("pair", "good"), chosen, TIERS) as plane:
        _, headers, answer = asyncio.run(whole(plane, "auto:code-write"))
        assert (headers["x-stoker-orchestrator"], text_of(answer)) == ("pair", WHOLE)
        _, headers, _ = asyncio.run(whole(plane, "auto:chat"))
        assert "x-stoker-orchestrator" not in headers
        _, headers, answer = asyncio.run(whole(plane, "choosing", "chat", ("x-stoker-class", "code-write")))
        assert (headers["x-stoker-serve"], text_of(answer)) == ("good", WHOLE)
        _, headers, _ = asyncio.run(whole(plane, "choosing", "chat", ("x-stoker-class", "chat")))
        assert headers["x-stoker-policy"] == "simple; chat"


def test_a_key_may_use_an_orchestrator_without_its_worker(tmp_path: Path) -> None:
    keys = '[{ name = "team", value = "file:key", models = ["pair"] }]'
    (tmp_path / "key").write_text("a-key-for-the-team-0")
    door = f"keys = {keys.replace('file:key', f'file:{tmp_path}/key')}"
    bearer = ("authorization", "Bearer a-key-for-the-team-0")
    with running(coder("good", tmp_path), orchestrator("pair", "good"), front_door=door) as plane:
        status, _, answer = asyncio.run(whole(plane, "pair", "chat", bearer))
        assert (status, text_of(answer)) == (200, WHOLE)
        status, _, answer = asyncio.run(whole(plane, "pair", "chat", bearer, ("x-stoker-policy", "simple")))
        assert status == 200
        assert asyncio.run(whole(plane, "good", "chat", bearer))[0] == 404


def test_an_engine_that_is_killed_within_a_block_loses_no_committed_one(tmp_path: Path) -> None:
    with running(coder("slow", tmp_path, seconds_per_block=0.3), orchestrator("slowly", "slow")) as plane:

        async def killed() -> tuple[int, Any, Any]:
            pads = plane.state / "orchestrator"

            def is_committed() -> bool:
                return any(read_scratchpad(page).committed for page in pads.glob("*.md"))

            async with asyncio.TaskGroup() as tasks:
                asked = tasks.create_task(whole(plane, "slowly", "chat", ("idempotency-key", "k")))
                await until(is_committed, "a block is committed")
                pid = plane.serve("slow")["pid"]
                os.kill(pid, signal.SIGKILL)
                await until(lambda: plane.serve("slow")["pid"] != pid, "its end was noticed")
            return asked.result()

        status, headers, answer = asyncio.run(killed())
        assert status in (502, 503), answer
        kept = scratchpad(plane, headers["x-request-id"]).committed
        assert [block.text for block in kept] == BLOCKS[: len(kept)]
        status, _, answer = asyncio.run(whole(plane, "slowly", "chat", ("idempotency-key", "k")))
        assert (status, text_of(answer)) == (200, WHOLE)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_no_half_block_and_a_repetition_completes_it(tmp_path: Path, step: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    named = ["# file: one.py\n" + BLOCKS[0], *BLOCKS[1:]]
    worker = coder("good", tmp_path, blocks=named)
    key = ("idempotency-key", "k")
    with running(worker, orchestrator("pair", "good", project=str(project)), started=False) as plane:
        plane.start(prepare=partial(die_at, step))
        with contextlib.suppress(OSError, FramingError):
            asyncio.run(whole(plane, "pair", "chat", key))
        plane.exit_code()
        for page in (plane.state / "orchestrator").glob("*.md"):
            assert [block.text for block in read_scratchpad(page).committed] == named[
                : len(read_scratchpad(page).committed)
            ]
        if (project / "one.py").exists():
            assert "\n".join(named).startswith((project / "one.py").read_text())
        plane.start()
        status, _, answer = asyncio.run(whole(plane, "pair", "chat", key))
        assert (status, text_of(answer)) == (200, "```python\n" + "\n".join(named) + "```\n")
        assert (project / "one.py").read_text() == "\n".join(named)
