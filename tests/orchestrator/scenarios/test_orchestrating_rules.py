"""The rest of an orchestrator's rules, through the whole program: who works, what they are told, what is streamed when,
what it costs, what is kept, and what is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.orchestrator.scenarios.test_orchestrating import (
    BLOCKS,
    BROKEN,
    WHOLE,
    coder,
    orchestrator,
    scratchpad,
    text_of,
    whole,
)
from tests.scenarios.caller import STREAMING, Talk, errors, story
from tests.scenarios.plane import Plane, llama, poll, running, serve, until

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker_lab.testing.script.script import Script
from stoker_orchestrator.loop.blocks import Correction, WorkerBlock
from stoker_orchestrator.loop.transcript import worker_prompt
from stoker_orchestrator.orchestrator import CheckLayer, Orchestrator
from stoker_orchestrator.prompts import worker_rules

SECRET = "the word nobody else may see"
OUTSIDE = ["../outside.py", "/tmp/outside-of-the-project.py", "link/outside.py", ".git/hooks/x.py"]
LONG = "x = [\n" + "".join(f"    {number},\n" for number in range(2000)) + "]\n"
TIERS = """
[[tier]]
name = "writing"
serve = "good"
cost = { input = 1.0, output = 2.0 }
[[tier]]
name = "judging"
serve = "judge"
cost = { input = 100.0, output = 1000.0 }
classes = ["review"]
[alias.writer]
serve = "good"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("rules")
    (here / "project").mkdir()
    (here / "project" / "link").symlink_to("/tmp")
    (here / "worker.txt").write_text("My own rules. End with {marker}\n")
    (here / "validator.txt").write_text("My own question. {task} {block}\n")
    return here


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[Plane]:
    own = {"worker_prompt": str(place / "worker.txt"), "validator_prompt": str(place / "validator.txt")}
    project = str(place / "project")
    with running(
        coder("good", place),
        coder("secretive", place, blocks=[f"# {SECRET}\nimport os\n"]),
        coder("mends", place, wrong={2: [BROKEN]}),
        coder("writes", place, seconds_per_block=0.05),
        coder("judge", place),
        coder("slow-judge", place, seconds_per_verdict=0.6),
        coder("hanging-judge", place, seconds_per_verdict=3600),
        coder("severe", place, verdicts=["[FAIL: I like nothing]"] * 99),
        coder("long", place, blocks=[LONG]),
        *(coder(f"outside-{at}", place, blocks=[f"# file: {path}\n{BLOCKS[0]}"]) for at, path in enumerate(OUTSIDE)),
        *(orchestrator(f"leaves-{at}", f"outside-{at}", project=project) for at in range(len(OUTSIDE))),
        coder("outside-later", place, blocks=[BLOCKS[0], f"# file: ../x.py\n{BLOCKS[1]}"]),
        orchestrator("leaves-later", "outside-later", project=project),
        serve("scripted", Script(text="```python\nx = ", tokens=1), slot=None),
        serve("scripted-judge", Script(text="[PASS]", tokens=1), slot=None),
        serve("broken", cmd=["false", "{port}"], slot=None),
        orchestrator("by-tier", "writing"),
        orchestrator("by-alias", "writer"),
        orchestrator("pair", "good"),
        orchestrator("default", "good").replace('policy = "block_by_block"\n', ""),
        orchestrator("told", "scripted", validator="scripted-judge", **own),
        orchestrator("mending", "mends"),
        orchestrator("ahead", "writes", validator="slow-judge"),
        orchestrator("plain", "writes", validator="slow-judge", overlap=False),
        orchestrator("hanging", "good", validator="hanging-judge", validator_timeout="200ms", retries=0),
        orchestrator("severely", "good", validator="severe", retries=1),
        orchestrator("mildly", "mends", validator="judge"),
        orchestrator("too-long", "long", retries=0),
        orchestrator("unstartable", "broken"),
        orchestrator("secret", "secretive", keep="1h"),
        orchestrator("priced", "good", validator="judge"),
        TIERS,
        front_door='keep_alive = "100ms"\ncommit_after = "200ms"',
        keeps_engines=True,
    ) as plane:
        yield plane


# -- who works, and what they are told -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["by-tier", "by-alias"])
@story
async def test_the_worker_may_be_a_tier_or_an_alias(plane: Plane, name: str) -> None:
    status, headers, answer = await whole(plane, name)
    assert (status, headers["x-stoker-serve"], text_of(answer)) == (200, "good", WHOLE)


@story
async def test_by_default_only_classes_that_write_code_go_block_by_block(plane: Plane) -> None:
    for task, policy in (
        ("code-write", "block_by_block"),
        ("code-edit", "block_by_block"),
        ("multi-file-refactor", "block_by_block"),
        ("chat", "simple; chat"),
        ("review", "simple; review"),
    ):
        status, headers, _ = await whole(plane, "default", "chat", ("x-stoker-class", task))
        assert (status, headers["x-stoker-policy"]) == (200, policy)


@story
async def test_own_prompts_reach_the_worker_and_the_validator(plane: Plane) -> None:
    for name in ("scripted", "scripted-judge"):
        await whole(plane, name)  # they are asked for what they received, so they have to be there
    await whole(plane, "told")
    asked = json.dumps((await asyncio.to_thread(plane.received, "scripted", "/v1/chat/completions"))[1]["body"])
    assert "My own rules. End with <<END-OF-BLOCK>>" in asked
    judged = json.dumps((await asyncio.to_thread(plane.received, "scripted-judge", "/v1/chat/completions"))[1]["body"])
    assert "My own question." in judged
    assert "write it" in judged, "the task"
    assert "x = 0" in judged, "the block"


@story
async def test_a_worker_that_cannot_be_started_is_an_error_as_for_any_request(plane: Plane) -> None:
    _, _, direct = await whole(plane, "broken")
    status, headers, answer = await whole(plane, "unstartable")
    assert status in (502, 503)
    assert answer["error"]["code"] == direct["error"]["code"]
    assert headers["x-stoker-orchestrator"] == "unstartable"


FAILOVER = """
[[tier]]
name = "first"
serve = "dies"
[[tier]]
name = "second"
serve = "broken"
[[tier]]
name = "third"
serve = "good"
"""
FAILOVER_OF_TWO = FAILOVER.replace("broken", "good").rpartition("[[tier]]")[0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dies_at", [0, 2])
def test_with_auto_the_next_planned_tier_goes_on_when_one_fails(tmp_path: Path, dies_at: int, stream: bool) -> None:
    dies, broken = coder("dies", tmp_path, dies_at=dies_at), serve("broken", cmd=["false", "{port}"], slot=None)
    with running(dies, broken, coder("good", tmp_path), orchestrator("pair", "auto"), FAILOVER) as plane:

        async def asked() -> tuple[dict[str, str], str]:
            async with Talk(
                plane, "pair", "write it", stream=stream, headers=(("x-stoker-class", "code-write"),)
            ) as talk:
                if stream:
                    return dict((await talk.opened()).headers), await talk.text()
                reply = await talk.reply()
                return dict(reply.headers), text_of(json.loads(reply.body))

        headers, text = asyncio.run(asked())
        assert text == WHOLE
        record = plane.decision(headers["x-request-id"])
        assert record["serve"] == "good"
        assert [one["serve"] for one in record["candidates"]] == ["dies", "broken", "good"]
        assert record["candidates"][0]["dropped"] == "upstream_broke"
        if not stream or not dies_at:
            assert headers["x-stoker-serve"] == "good"
        assert record["orchestrated"]["blocks"] == len(BLOCKS)


def test_a_named_worker_has_no_successor(tmp_path: Path) -> None:
    with running(
        coder("dies", tmp_path, dies_at=2), coder("good", tmp_path), orchestrator("pair", "dies"), FAILOVER_OF_TWO
    ) as plane:
        status, headers, answer = asyncio.run(whole(plane, "pair"))
        assert (status, answer["error"]["code"], headers["x-stoker-serve"]) == (502, "upstream_broke", "dies")
        assert "def second" not in answer["error"]["committed"]


# -- streaming, overlap, usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", STREAMING)
@story
async def test_pings_come_while_the_validator_judges_also_the_first_block(plane: Plane, dialect: str) -> None:
    async with Talk(plane, "ahead", "write it", dialect, stream=True) as talk:
        found = await talk.rest()
    is_ping = [bool(event.comment) or event.name == "ping" or '"ping"' in event.data for event in found]
    texts = [at for at, event in enumerate(found) if "import os" in (event.data or "")]
    assert any(is_ping[: texts[0]]), "before the first block"
    assert any(is_ping[texts[0] :]), "and between blocks"


@pytest.mark.parametrize(("name", "is_ahead"), [("ahead", True), ("plain", False)])
@story
async def test_with_overlap_the_next_block_is_written_during_the_verdict(
    plane: Plane, name: str, is_ahead: bool
) -> None:
    status, headers, answer = await whole(plane, name)
    assert (status, text_of(answer)) == (200, WHOLE)
    page = scratchpad(plane, headers["x-request-id"]).text
    titles = re.findall(r"Block (\d)|(validator) passed", page)
    written = next(at for at, (number, _) in enumerate(titles) if number == "2")
    judged = next(at for at, (_, verdict) in enumerate(titles) if verdict)
    assert (written < judged) == is_ahead, titles


@story
async def test_usage_is_the_sum_of_all_that_was_generated(plane: Plane) -> None:
    _, headers, answer = await whole(plane, "mildly")
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    usage = answer["usage"]
    assert record["orchestrated"]["generations"] >= 2
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (record["input_tokens"], record["output_tokens"])
    _, _, once = await whole(plane, "pair")
    assert usage["completion_tokens"] > once["usage"]["completion_tokens"]
    assert record["orchestrated"]["validator_tokens"] == 23 * len(BLOCKS), "apart from the worker's"


@story
async def test_the_cost_of_a_run_is_that_of_worker_and_validator(plane: Plane) -> None:
    done = await asyncio.to_thread(plane.run, "run", "--model", "priced", "--json", "Write it")
    answer: Any = json.loads(done.stdout)
    record = (await asyncio.to_thread(plane.decision, answer["request"]))["orchestrated"]
    assert (record["validator"], record["validator_tokens"]) == ("judge", 23 * len(BLOCKS))
    worker = (answer["input_tokens"] + 2 * answer["output_tokens"]) / 1e6
    assert answer["cost"] == pytest.approx(worker + len(BLOCKS) * (20 * 100 + 3 * 1000) / 1e6)


# -- what is wrong ---------------------------------------------------------------------------------------------------


def test_a_worker_that_hangs_is_seen_by_the_watchdog(tmp_path: Path) -> None:
    """As any request's serve: nothing came from it for too long, so it is restarted, and the request ends."""
    watchful = '[watchdog]\ninterval = "100ms"\nstall = "400ms"'
    with running(coder("hangs", tmp_path, hangs_at=1), orchestrator("pair", "hangs"), watchful) as plane:
        status, _, answer = asyncio.run(whole(plane, "pair"))
        assert status in (502, 503), answer
        assert answer["error"]["committed"].startswith("```python\nimport os\n")
        assert any(one["kind"] == "restarted" for one in plane.status()["events"]), plane.status()["events"]


@story
async def test_a_validator_that_hangs_is_bounded_and_passes_nothing(plane: Plane) -> None:
    began = time.monotonic()
    status, _, answer = await whole(plane, "hanging")
    assert (status, answer["error"]["code"]) == (422, "validation_failed")
    assert "gave no answer within 0.2 s" in answer["error"]["message"]
    assert "committed" not in answer["error"]
    assert time.monotonic() - began < 10


@story
async def test_a_validator_that_always_fails_ends_the_request_with_its_reason(plane: Plane) -> None:
    status, headers, answer = await whole(plane, "severely")
    assert (status, answer["error"]["code"], answer["error"]["block"]) == (422, "validation_failed", 1)
    assert "I like nothing" in answer["error"]["message"]
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    assert record["orchestrated"]["failures"] == {"validator": 2}


@story
async def test_a_validator_that_always_passes_does_not_undo_the_other_checks(plane: Plane) -> None:
    plane.unload("mends")  # it makes its mistake once
    status, headers, answer = await whole(plane, "mildly")
    assert (status, text_of(answer)) == (200, WHOLE)
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    assert record["orchestrated"]["failures"] == {"structure": 1}


@story
async def test_a_block_that_never_ends_is_ended_at_its_bound(plane: Plane) -> None:
    status, headers, answer = await whole(plane, "too-long")
    assert (status, answer["error"]["code"]) == (422, "validation_failed")
    assert "longer than 400 lines or 4,000 tokens" in answer["error"]["message"]
    record = await asyncio.to_thread(plane.decision, headers["x-request-id"])
    assert record["output_tokens"] < len(LONG) / 4, "the worker was ended there"


@pytest.mark.parametrize("at", range(len(OUTSIDE)), ids=["parent", "absolute", "link", "private"])
@story
async def test_a_path_that_leaves_the_project_is_refused_with_the_rule(plane: Plane, place: Path, at: int) -> None:
    before = sorted(place.rglob("*"))
    status, _, answer = await whole(plane, f"leaves-{at}")
    assert (status, answer.get("error", answer).get("code", answer)) == (422, "path_outside_project")
    rule = ("'..'", "relative to the project", "is a link", "is not for files")[at]
    assert rule in answer["error"]["message"]
    assert "committed" not in answer["error"]
    left = {path.relative_to(place).as_posix() for path in set(place.rglob("*")) - set(before)}
    assert all(name.startswith("project/.stoker") for name in left), left
    assert not Path("/tmp/outside-of-the-project.py").exists()
    assert not Path("/tmp/outside.py").exists()


@story
async def test_in_a_stream_a_refused_path_is_an_event(plane: Plane) -> None:
    async with Talk(plane, "leaves-later", "write it", stream=True) as talk:
        found = await talk.rest()
    assert [error["code"] for error in errors(found, "chat")] == ["path_outside_project"]


def test_what_stands_before_a_block_that_is_written_again_comes_from_the_engines_cache(tmp_path: Path) -> None:
    """A real llama.cpp finds the sequence with the longest common prefix itself."""
    rules = worker_rules(Orchestrator(name="pair", worker="ember"))

    def messages(task: str, *blocks: WorkerBlock, wrong: WorkerBlock | None = None) -> list[dict[str, str]]:
        correction = None if wrong is None else Correction(wrong, CheckLayer.STRUCTURE, "line 1: invalid syntax")
        request = Prompt(Dialect.CHAT, "ember", [Turn(Role.USER, [Text(task)])])
        turns = worker_prompt(request, rules, blocks, correction).turns
        return [{"role": turn.role.value, "content": "".join(part.text for part in turn.blocks)} for turn in turns]  # type: ignore[union-attr]

    def block(text: str) -> WorkerBlock:
        return WorkerBlock(text, True, "python", "", "python", True, True)

    async def usage(plane: Plane, sent: list[dict[str, str]], tokens: int = 8) -> dict[str, Any]:
        async with Talk(plane, "ember", messages=sent, max_tokens=tokens, temperature=0) as talk:
            return dict(json.loads((await talk.reply()).body)["usage"])

    async def told(plane: Plane) -> None:
        first = messages("Count to 9, slowly, and say each number twice.")
        until_it_writes = (await usage(plane, first))["prompt_tokens"] - 8
        async with Talk(plane, "ember", messages=first, max_tokens=512, stream=True) as talk:
            await talk.event()  # the generation is ended where the loop cuts back
        idle = "llamacpp:requests_processing 0"
        await until(lambda: idle in plane.ask("GET", "/upstream/ember/metrics")[1], "the engine has noticed")
        for blocks, wrong in (
            ((), BROKEN),
            ((block(BLOCKS[0]),), BROKEN),
            ((block(BLOCKS[0]), block(BLOCKS[1])), BROKEN),
        ):
            sent = messages("Count to 9, slowly, and say each number twice.", *blocks, wrong=block(wrong))
            found = await usage(plane, sent)
            assert found["prompt_tokens_details"]["cached_tokens"] >= until_it_writes, found

    with running(llama("ember", "ember", slot=None, context=4096)) as plane:
        asyncio.run(told(plane))


# -- what is kept ----------------------------------------------------------------------------------------------------


@story
async def test_scratchpads_are_private_and_decisions_hold_no_content(plane: Plane) -> None:
    async with Talk(plane, "secret", f"write {SECRET} twice") as talk:
        reply = await talk.reply()
    assert SECRET in json.loads(reply.body)["choices"][0]["message"]["content"]
    request = dict(reply.headers)["x-request-id"]
    page = plane.state / "orchestrator" / f"{request}.md"
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.parent.stat().st_mode & 0o777 == 0o700
    assert SECRET in page.read_text()
    record = await asyncio.to_thread(plane.decision, request)
    assert SECRET not in json.dumps(record)
    elsewhere = [path for path in plane.state.rglob("*") if path.is_file() and path.parent != page.parent]
    assert [path.name for path in elsewhere if SECRET.encode() in path.read_bytes()] == []


@story
async def test_simple_requests_leave_no_scratchpad(plane: Plane) -> None:
    before = set((plane.state / "orchestrator").glob("*"))
    await whole(plane, "pair", "chat", ("x-stoker-policy", "simple"))
    await whole(plane, "good")
    assert set((plane.state / "orchestrator").glob("*")) == before


def test_a_scratchpad_is_removed_after_its_time(tmp_path: Path) -> None:
    with running(coder("good", tmp_path), orchestrator("pair", "good", keep="1h")) as plane:
        _, headers, _ = asyncio.run(whole(plane, "pair"))
        page = plane.state / "orchestrator" / f"{headers['x-request-id']}.md"
        assert page.exists()
        old = time.time() - 7200
        os.utime(page, (old, old))
        plane.signal(signal.SIGTERM)
        plane.exit_code()
        plane.start()
        asyncio.run(whole(plane, "pair"))
        poll(lambda: not page.exists(), "the old scratchpad is removed")


def test_without_an_orchestrator_nothing_is_stored(tmp_path: Path) -> None:
    with running(coder("good", tmp_path)) as plane:
        status, _, answer = asyncio.run(whole(plane, "good"))
        assert status == 200, answer
        assert not (plane.state / "orchestrator").exists()


# -- the command -----------------------------------------------------------------------------------------------------


@story
async def test_run_gives_one_json_document_and_takes_a_policy(plane: Plane) -> None:
    done = await asyncio.to_thread(plane.run, "run", "--model", "mending", "--json", "Write it")
    assert done.returncode == 0, done.stderr
    answer: Any = json.loads(done.stdout)
    assert answer["text"] == WHOLE
    assert [block["passed"] for block in answer["blocks"]] == [True] * 4
    done = await asyncio.to_thread(plane.run, "run", "--model", "pair", "--policy", "simple", "Write it")
    assert "answered by good alone, and not checked (caller)" in done.stderr
    done = await asyncio.to_thread(plane.run, "run", "--model", "mendin", "Write it")
    assert (done.returncode, done.stderr) == (1, "stoker: no model is named 'mendin'; did you mean 'mending'?\n")
    done = await asyncio.to_thread(plane.run, "run", "--model", "pair", "--policy", "sometimes", "Write it")
    assert done.returncode == 2
    assert "there is no policy 'sometimes'" in done.stderr
