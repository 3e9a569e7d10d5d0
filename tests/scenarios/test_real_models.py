"""The real llama.cpp, the two tiny models, the official SDKs: what a person does with it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from bench.agents.search_site import SearchSite
from tests.scenarios import preloaded
from tests.scenarios.caller import PATHS, Talk, ask, budget, document, errors, story
from tests.scenarios.plane import DIALECTS, Plane, llama, poll, running, serve, until

from stoker_lab.testing.client import RawClient

pytestmark = pytest.mark.llama
NAMES = ("spark", "ember")
WHO = "Who are you?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EXACT: dict[str, Any] = {"temperature": 0}


def answer(name: str) -> str:
    return f"I am {name}, a tiny language model that tests Stoker."


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with (
        SearchSite() as site,
        running(
            site.configuration,
            llama("spark", aliases=["gpt-4o-mini"]),
            llama("ember", "ember"),
            llama("vectors", slot=None, dialects=["embeddings"], extra_args=["--embeddings", "--pooling", "mean"]),
            serve("scripted-ranker", slot=None, dialects=DIALECTS),
        ) as plane,
    ):
        yield plane


@asynccontextmanager
async def sdks(plane: Plane) -> AsyncIterator[tuple[openai.AsyncOpenAI, anthropic.AsyncAnthropic]]:
    url = f"http://127.0.0.1:{plane.port}"
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ours,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as theirs,
    ):
        yield ours, theirs


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


@story
async def test_both_models_answer_every_dialect_through_the_async_sdks_swapping_in_one_slot(plane: Plane) -> None:
    """Whole and streamed: Chat, Responses, Messages; whose answer it is shows which model was loaded."""
    async with sdks(plane) as (ours, theirs):
        for name in NAMES:
            chat = await ours.chat.completions.create(model=name, messages=user(WHO), **EXACT)
            assert chat.choices[0].message.content == answer(name)
            assert chat.usage is not None
            assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (16, 24)
        for name in NAMES:
            pieces = await ours.chat.completions.create(model=name, messages=user(WHO), stream=True, **EXACT)
            told = [chunk.choices[0].delta.content or "" async for chunk in pieces if chunk.choices]
            assert "".join(told) == answer(name)
            assert len([piece for piece in told if piece]) > 5, "it came in one piece"
        for name in NAMES:
            async with theirs.messages.stream(
                model=name, max_tokens=64, messages=user(WHO), extra_body=EXACT
            ) as messages:
                assert "".join([text async for text in messages.text_stream]) == answer(name)
                final = await messages.get_final_message()
            assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 24)
            counted = await theirs.messages.count_tokens(model=name, messages=user(WHO))
            assert counted.input_tokens == 16
        for name in NAMES:
            # not the SDK's `responses.stream`: llama.cpp leaves `content_index` out, which that helper folds by
            events = await ours.responses.create(model=name, input=WHO, stream=True, **EXACT)
            found = [event async for event in events]
            assert "".join(one.delta for one in found if one.type == "response.output_text.delta") == answer(name)
            assert found[-1].type == "response.completed"
            whole = await ours.responses.create(model=name, input=WHO, **EXACT)
            assert whole.output_text == answer(name)
        assert [model.id async for model in ours.models.list()][:3] == ["spark", "gpt-4o-mini", "ember"]
        assert [model.id async for model in theirs.models.list()][:3] == ["spark", "gpt-4o-mini", "ember"]
    assert plane.slot()["swaps"] >= 6


def test_the_sync_sdks_do_too(plane: Plane) -> None:
    """One conversation each, without a loop."""
    url = f"http://127.0.0.1:{plane.port}"
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ours:
        chat = ours.chat.completions.create(model="gpt-4o-mini", messages=user(WHO), **EXACT)
        assert chat.choices[0].message.content == answer("spark")
        with ours.chat.completions.create(model="ember", messages=user(WHO), stream=True, **EXACT) as pieces:
            assert "".join(one.choices[0].delta.content or "" for one in pieces if one.choices) == answer("ember")
        assert ours.models.retrieve("ember").id == "ember"
        assert ours.completions.create(model="ember", prompt="1 2 3", max_tokens=4).usage is not None
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as theirs:
        message = theirs.messages.create(model="spark", max_tokens=64, messages=user(WHO), extra_body=EXACT)
        assert [block.text for block in message.content if block.type == "text"] == [answer("spark")]
        with theirs.messages.stream(model="ember", max_tokens=64, messages=user(WHO), extra_body=EXACT) as stream:
            assert "".join(stream.text_stream) == answer("ember")
        assert theirs.models.retrieve("spark").id == "spark"


def calls(completion: Any) -> list[tuple[str, Any]]:
    """Name and arguments of each tool call in a chat completion."""
    found = completion.choices[0].message.tool_calls or ()
    return [(one.function.name, json.loads(one.function.arguments)) for one in found]


@story
async def test_a_tool_call_comes_through_in_every_dialect(plane: Plane) -> None:
    """Byte for byte from a real engine: name and arguments, whole and streamed."""
    asked = "What is the weather in Paris?"
    tool: Any = {"name": "get_weather", "description": "Get the weather", "parameters": CITY}
    async with sdks(plane) as (ours, theirs):
        given: Any = {"model": "spark", "messages": user(asked), "tools": [{"type": "function", "function": tool}]}
        chat = await ours.chat.completions.create(**given, **EXACT)
        assert chat.choices[0].finish_reason == "tool_calls"
        assert calls(chat) == [("get_weather", {"city": "Paris"})]
        async with ours.chat.completions.stream(**given, **EXACT) as stream:
            assert calls(await stream.get_final_completion()) == [("get_weather", {"city": "Paris"})]
        named: Any = [{"name": "get_weather", "description": "Get the weather", "input_schema": CITY}]
        async with theirs.messages.stream(
            model="spark", max_tokens=64, messages=user(asked), tools=named, extra_body=EXACT
        ) as messages:
            final = await messages.get_final_message()
        assert final.stop_reason == "tool_use"
        assert [(one.name, one.input) for one in final.content if one.type == "tool_use"] == [
            ("get_weather", {"city": "Paris"})
        ]
        flat: Any = [{"type": "function", "strict": None, **tool}]
        response = await ours.responses.create(model="spark", input=asked, tools=flat, **EXACT)
        told = [one for one in response.output if one.type == "function_call"]
        assert [(one.name, json.loads(one.arguments)) for one in told] == [("get_weather", {"city": "Paris"})]


@pytest.mark.holds("T")
@story
async def test_a_model_searches_the_web_in_every_dialect(plane: Plane) -> None:
    """The model asks by itself; Stoker searches; the model goes on, and the SDK reads the vendor's own form."""
    asked = "Search for Paris."
    async with sdks(plane) as (ours, theirs):
        search: Any = {"type": "web_search_20250305", "name": "web_search"}
        async with theirs.messages.stream(
            model="spark", max_tokens=100, messages=user(asked), tools=[search], extra_body=EXACT
        ) as messages:
            final = await messages.get_final_message()
        assert [block.type for block in final.content] == ["server_tool_use", "web_search_tool_result", "text"]
        assert final.usage.server_tool_use is not None
        assert final.usage.server_tool_use.web_search_requests == 1
        response = await ours.responses.create(
            model="spark", input=asked, tools=[{"type": "web_search"}], max_output_tokens=100, **EXACT
        )
        found = [item.action for item in response.output if item.type == "web_search_call"]
        assert [action.query for action in found if action.type == "search"] == ["Paris"]
        chat = await ours.chat.completions.create(
            model="spark", messages=user(asked), max_tokens=100, web_search_options={}, **EXACT
        )
        assert chat.choices[0].message.content
        assert chat.choices[0].message.tool_calls is None


@story
async def test_the_sdks_understand_stokers_refusals(plane: Plane) -> None:
    """Each as the exception that its user expects, naming Stoker."""
    async with sdks(plane) as (ours, theirs):
        with pytest.raises(openai.NotFoundError) as unknown:
            await ours.chat.completions.create(model="sparc", messages=user(WHO))
        assert unknown.value.code == "unknown_model"
        assert "spark" in unknown.value.message
        with pytest.raises(anthropic.NotFoundError) as missing:
            await theirs.messages.create(model="sparc", max_tokens=5, messages=user(WHO))
        assert isinstance(missing.value.body, dict)
        assert missing.value.body["error"]["source"] == "stoker"
        with pytest.raises(openai.BadRequestError) as large:
            await ours.responses.create(model="spark", input="word " * 2000)
        assert large.value.code == "context_length_exceeded"


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@story
async def test_the_context_check_counts_real_tokens_cold_and_warm_exactly_at_the_limit(
    plane: Plane, dialect: str
) -> None:
    """Behaviour 29: 1,024 tokens of context, counted by the engine's own tokenizer and template."""
    text = "the red house stands by the river " * 20
    async with RawClient(plane.port, timeout=30) as client:
        counted = await client.ask("POST", "/v1/messages/count_tokens", document("spark", text, "messages"))
    room = 1024 - counted.json()["input_tokens"]
    for _ in range(2):
        await asyncio.to_thread(plane.admin, "unload", serve="spark")
        lowered = await ask(plane, "spark", text, dialect, **budget(dialect, room + 1), **EXACT)
        assert (lowered.status, lowered.header("x-stoker-edits")) == (200, f"{next(iter(budget(dialect, 1)))}={room}")
        exact = await ask(plane, "spark", text, dialect, **budget(dialect, room), **EXACT)
        assert (exact.status, exact.header("x-stoker-edits")) == (200, None)
    long = await ask(plane, "spark", text * 20, dialect, **budget(dialect, 5))
    assert (long.status, long.json()["error"]["code"]) == (400, "context_length_exceeded")


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]}]}),
    "messages": ("/v1/messages", {"max_tokens": 8, "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    ]}]}),
    "responses": ("/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]}]}),
    "ollama": ("/api/chat", {"messages": [{"role": "user", "content": "What is it?", "images": [PIXEL]}]}),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", PICTURED)
def test_an_image_for_a_text_model_is_a_400_that_names_the_model_and_what_it_takes(
    plane: Plane, dialect: str, stream: bool
) -> None:
    path, body = PICTURED[dialect]
    asked = {"model": "gpt-4o-mini", "stream": stream, **body}
    reply = httpx.post(f"http://127.0.0.1:{plane.port}{path}", json=asked, timeout=60)
    assert reply.status_code == 400, reply.text
    said = reply.json()["error"]
    message = said if isinstance(said, str) else said["message"]
    assert message == "model 'gpt-4o-mini' takes text and no images: ask a model that takes images"
    assert reply.headers["x-should-retry"] == "false"


@story
async def test_embeddings_and_rerank_reach_serves_started_for_them(plane: Plane) -> None:
    """llama.cpp with --embeddings; rerank at the scripted server, since no such model is here."""
    async with RawClient(plane.port, timeout=30) as client:
        vectors = await client.ask("POST", "/v1/embeddings", {"model": "vectors", "input": ["one", "two"]})
        assert [len(one["embedding"]) for one in vectors.json()["data"]] == [96, 96]
        ranked = await client.ask(
            "POST", "/v1/rerank", {"model": "scripted-ranker", "query": "a", "documents": ["a", "b"]}
        )
        assert len(ranked.json()["results"]) == 2
        assert (await client.ask("POST", PATHS["chat"], document("vectors"))).json()["error"]["code"] == (
            "dialect_not_spoken"
        )


@story
async def test_llama_cpp_killed_in_mid_stream_is_started_again_and_nothing_is_left(plane: Plane) -> None:
    """SIGKILL of the real engine."""
    async with Talk(plane, "ember", "Count to 60.", stream=True, **EXACT) as stream:
        await stream.event()
        killed = plane.serve("ember")["pid"]
        os.kill(killed, signal.SIGKILL)
        events = await stream.rest()
    assert [error["code"] for error in errors(events, "chat")] in (["upstream_broke"], []), "at most one"
    await until(lambda: plane.serve("ember")["pid"] != killed, "its end is noticed")
    reply = await ask(plane, "ember", WHO, **EXACT)
    assert reply.status == 200, reply.body
    assert reply.json()["choices"][0]["message"]["content"] == answer("ember")


@pytest.mark.heavy
@story
async def test_thirty_swaps_leave_no_descriptor_and_no_process_behind(plane: Plane) -> None:
    """A/B on the real llama.cpp; also no growth of memory worth the name."""
    for name in NAMES:
        assert (await ask(plane, name, WHO, **EXACT)).status == 200
    open_, memory, swaps = plane.descriptors(), plane.memory(), plane.slot()["swaps"]
    for turn in range(30):
        name = NAMES[turn % 2]
        reply = await ask(plane, name, WHO, **EXACT)
        assert reply.json()["choices"][0]["message"]["content"] == answer(name)
        assert len(plane.processes()) == 1
    assert plane.slot()["swaps"] == swaps + 30
    await until(
        lambda: len(plane.descriptors()) <= len(open_), lambda: f"{open_} open as before: {plane.descriptors()}"
    )
    assert plane.memory() - memory < 12 * 2**20


# -- the demo --------------------------------------------------------------------------------------------------------


@pytest.fixture
def demo() -> Iterator[Plane]:
    """`stoker up --demo`, in a home of its own."""
    with running(started=False) as plane:
        plane.state = plane.directory / ".local" / "state" / "stoker" / "demo"
        start(plane)
        yield plane


def start(plane: Plane) -> None:
    plane.start("--demo", "--port", str(plane.port))


def ask_demo(plane: Plane, name: str) -> str:
    reply = httpx.post(
        f"http://127.0.0.1:{plane.port}/v1/chat/completions",
        json={"model": name, "messages": user(WHO), **EXACT},
        timeout=60,
    )
    return str(reply.json()["choices"][0]["message"]["content"])


def test_the_openai_sdks_stream_helper_reads_the_demo_and_continues_what_it_said(demo: Plane) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{demo.port}/v1", api_key="none", max_retries=0) as client:
        for name in NAMES:
            with client.responses.stream(model=name, input=WHO, temperature=0) as stream:
                said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
                final = stream.get_final_response()
            assert said == final.output_text == answer(name)
            again = client.responses.create(model=name, input=WHO, previous_response_id=final.id)
            assert again.previous_response_id == final.id


def test_ctrl_c_on_the_demo_leaves_no_process_behind(demo: Plane) -> None:
    """Both models answer through one URL; then SIGINT."""
    for name in NAMES:
        assert ask_demo(demo, name) == answer(name)
    assert "Stoker answers at" in demo.said()
    demo.signal(signal.SIGINT)
    assert demo.exit_code() == 0
    assert demo.processes() == {}


@pytest.mark.parametrize("policy", ["simple", "block_by_block"])
def test_the_demos_orchestrator_answers_the_command_that_the_demo_prints(demo: Plane, policy: str) -> None:
    poll(lambda: "stoker run " in demo.said(), "it says what to type")
    line = next(line for line in demo.said().splitlines() if "stoker run " in line)
    words = ["run", *shlex.split(line.partition(" run ")[2])]
    command = preloaded.Command((*words, "--policy", policy), demo.directory, demo.environment)
    out, err = command.communicate(60)
    assert (command.wait(), out) == (0, "1 2 3 4 5 6 7 8 9\n"), err
    assert ("block 1: passed" in err) is (policy == "block_by_block")


def test_the_demos_orchestrator_answers_both_sdks_streamed_and_not(demo: Plane) -> None:
    url, headers = f"http://127.0.0.1:{demo.port}", {"x-stoker-policy": "block_by_block"}
    asked: Any = {"model": "pair", "messages": [{"role": "user", "content": "Count to 9."}], "extra_headers": headers}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        whole = client.chat.completions.with_raw_response.create(**asked)
        assert whole.headers["x-stoker-policy"] == "block_by_block"
        texts = [whole.parse().choices[0].message.content]
        chunks = client.chat.completions.create(stream=True, **asked)
        texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
    with anthropic.Anthropic(base_url=url, api_key="none") as other:
        message = other.messages.create(max_tokens=64, **asked)
        texts.append(message.content[0].text)
        with other.messages.stream(max_tokens=64, **asked) as stream:
            texts.append("".join(stream.text_stream))
    assert texts == ["1 2 3 4 5 6 7 8 9\n"] * 4


def test_sigkill_of_the_demo_leaves_no_engine_behind(demo: Plane) -> None:
    """Only the demo's engines die with it; the next demo starts in the same place."""
    assert ask_demo(demo, "spark") == answer("spark")
    assert len(demo.processes()) == 1
    demo.signal(signal.SIGKILL)
    assert demo.exit_code() == -signal.SIGKILL
    poll(lambda: not demo.processes(), lambda: f"no engine is left: {demo.processes()}", 5.0)
    start(demo)
    assert ask_demo(demo, "ember") == answer("ember")


def printed(demo: Plane, begin: str) -> str:
    """What the demo prints from a line on, up to the next empty line: as a new user copies it."""
    poll(lambda: "Stoker answers at" in demo.said(), "it says what to type, all at once")
    text = demo.said()
    return text[text.index(f"\n{begin}") + 1 :].partition("\n\n")[0]


def test_every_sdk_line_that_the_demo_prints_works(demo: Plane) -> None:
    for package, answer in (("openai", "I am ember"), ("anthropic", "I am spark")):
        copied = [sys.executable, "-c", printed(demo, f"from {package} import")]
        done = subprocess.run(copied, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert answer in done.stdout


def test_every_command_that_the_demo_prints_works_in_a_bare_shell(demo: Plane, tmp_path: Path) -> None:
    found = shutil.which("stoker")  # if the demo found it on its PATH, so will the shell of its user
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin" + (f":{Path(found).parent}" if found else "")
    bare = {"PATH": path, "HOME": str(tmp_path)}
    commands = [printed(demo, "curl "), *re.findall(r"^\S*stoker .*$", demo.said(), re.MULTILINE)]
    for line, answer in zip(commands, ("I am spark", "1 2 3 4 5 6 7 8 9", "demo", "ember"), strict=True):
        done = subprocess.run(line, shell=True, env=bare, cwd="/", capture_output=True, text=True, timeout=60)  # noqa: S602
        assert (done.returncode, answer in done.stdout) == (0, True), (line, done.stdout, done.stderr)
