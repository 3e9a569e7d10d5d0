"""`stoker run` against a real Stoker: blocks as they pass, Ctrl-C and going on, alone, and with a project."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.proposals import in_text
from tests.orchestrator.scenarios.test_orchestrating import BLOCKS, BROKEN, WHOLE, coder, orchestrator
from tests.scenarios.caller import Talk, story
from tests.scenarios.plane import Plane, poll, running

NAMED = ["# file: app/one.py\n" + BLOCKS[0], *BLOCKS[1:]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    here = tmp_path_factory.mktemp("coders")
    with running(
        coder("mends", here, wrong={2: [BROKEN]}),
        coder("never", here, wrong={2: [BROKEN] * 99}),
        coder("slow", here, seconds_per_block=0.4),
        coder("named", here, blocks=NAMED),
        orchestrator("mending", "mends"),
        orchestrator("failing", "never", retries=1),
        orchestrator("slowly", "slow"),
        orchestrator("writing", "named"),
    ) as plane:
        yield plane


def ran(plane: Plane, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = plane.run("run", *words)
    assert done.returncode == code, f"{words}: {done.returncode} {done.stdout} {done.stderr}"
    return done


def request_of(output: str) -> str:
    return next(word.strip(":") for word in output.split() if word.startswith("run_"))


@story
async def test_blocks_are_shown_with_their_failures_and_explained_later(plane: Plane) -> None:
    done = await asyncio.to_thread(ran, plane, "--model", "mending", "Write it")
    assert done.stdout == WHOLE
    assert "block 3: structure failed: line 1: invalid syntax" in done.stderr
    assert "block 4: passed" in done.stderr
    request = request_of(done.stderr)
    explained = await asyncio.to_thread(plane.run, "explain", request)
    assert "orchestrator mending: block_by_block, as configured" in explained.stdout
    assert "4 committed; failed: structure 1" in explained.stdout
    shown = await asyncio.to_thread(plane.run, "orchestrator", "show", request)
    assert "- structure failed: line 1: invalid syntax" in shown.stdout
    _, text = await asyncio.to_thread(plane.ask, "GET", "/metrics")
    assert 'stoker_orchestrated_check_failures_total{layer="structure",orchestrator="mending"}' in text
    named = [one["name"] for one in (await asyncio.to_thread(plane.status))["orchestrators"]]
    assert named == ["mending", "failing", "slowly", "writing"]


@story
async def test_a_block_that_never_passes_ends_the_command_with_1(plane: Plane) -> None:
    done = await asyncio.to_thread(lambda: ran(plane, "--model", "failing", "Write it", code=1))
    assert done.stdout.endswith(BLOCKS[1]), "what passed was shown, and nothing else"
    assert f"stoker run --resume {request_of(done.stderr)}" in done.stderr
    proposed = next(one.text for one in in_text(done.stderr) if one.text.startswith("stoker orchestrator show"))
    shown = await asyncio.to_thread(plane.run, *proposed.split()[1:])
    assert "structure failed" in shown.stdout, f"{proposed}: {shown.stderr}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@story
async def test_a_stopped_request_ends_at_once_and_goes_on_after_its_blocks(plane: Plane, number: int) -> None:
    command = await asyncio.to_thread(plane.begin, "run", "--model", "slowly", "Write it")
    pads = plane.state / "orchestrator"

    def has_committed() -> bool:
        texts = [path.read_text() for path in pads.glob("run_*.md")]
        return any("orchestrator: slowly" in text and "- committed" in text and "Finished" not in text
                   and "resumes:" not in text for text in texts)  # fmt: skip

    await asyncio.to_thread(poll, has_committed, "a block is committed")
    command.send_signal(number)
    out, said = await asyncio.to_thread(command.communicate, 30)
    assert command.wait() == 130
    assert WHOLE.startswith(out.rstrip("\n")), "only whole blocks that passed"
    await asyncio.to_thread(poll, plane.is_settled, "the worker has ended")
    request = said.rpartition("stoker run --resume ")[2].split()[0]
    again = await asyncio.to_thread(ran, plane, "--resume", request)
    assert again.stdout == WHOLE
    assert f"block 1: kept from {request}" in again.stderr
    for path in pads.glob("run_*.md"):
        path.unlink()  # the next case begins without any


@story
async def test_files_go_into_the_project_that_the_command_names(plane: Plane, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "app").mkdir(parents=True)
    await asyncio.to_thread(ran, plane, "--model", "writing", "--project", str(project), "Write it")
    assert (project / "app" / "one.py").read_text() == "\n".join(NAMED)
    (project / "app" / "one.py").write_text("mine\n")
    done = await asyncio.to_thread(
        lambda: ran(plane, "--model", "writing", "--project", str(project), "Write it", code=1)
    )
    assert "'app/one.py' was not written" in done.stderr
    assert (project / "app" / "one.py").read_text() == "mine\n"
    proposed = next(one.text for one in in_text(done.stderr) if one.text.startswith("stoker run --file"))
    given = ("--model", "writing", "--project", str(project), *proposed.split()[2:])
    await asyncio.to_thread(ran, plane, *given, "Write it anew")
    assert (project / "app" / "one.py").read_text() == "\n".join(NAMED)


@story
async def test_a_project_is_refused_over_the_network(plane: Plane, tmp_path: Path) -> None:
    headers = (("x-stoker-project", str(tmp_path)),)
    async with Talk(plane, "writing", "Write it", headers=headers) as talk:
        reply = await talk.reply()
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (403, "project_refused")
    assert list(tmp_path.iterdir()) == []


@story
async def test_a_scratchpad_is_for_administrators_and_unknown_ones_are_404(plane: Plane) -> None:
    status, answer = await asyncio.to_thread(plane.ask, "GET", "/admin/orchestrator/nobody?offset=0")
    assert (status, answer["error"]["code"]) == (404, "unknown_request")
    status, answer = await asyncio.to_thread(plane.ask, "GET", "/admin/orchestrator/nobody?offset=-1")
    assert (status, answer["error"]["code"]) == (400, "bad_field")


def test_alone_it_starts_a_stoker_for_the_request_and_ends_it(tmp_path: Path) -> None:
    tables = (coder("good", tmp_path), orchestrator("pair", "good"))
    with running(*tables, started=False) as plane:
        done = plane.run("run", "Write it")
        assert (done.returncode, done.stdout) == (0, WHOLE), done.stderr
        assert "starting one for this request" in done.stderr
        assert plane.processes() == {}, "it ended before the command did"
        plane.is_clean()
        again = plane.run("run", "--resume", request_of(done.stderr))
        assert again.stdout == WHOLE


def test_alone_a_stoker_that_does_not_start_says_why(tmp_path: Path) -> None:
    tables = (coder("good", tmp_path), orchestrator("pair", "good"))
    with running(*tables, started=False) as plane:
        (plane.state).mkdir(mode=0o700)
        (plane.state / "decisions.db").mkdir()
        (plane.state / "lock").mkdir()
        done = plane.run("run", "Write it")
        assert done.returncode == 1
        assert "Stoker did not start (" in done.stderr
        assert "stoker up --config" in done.stderr
