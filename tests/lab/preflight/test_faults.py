"""The faults: enough of them, each with checks that exist, and a proxy that without one changes nothing."""

from __future__ import annotations

import asyncio
import json

import pytest

from stoker.domain.lease import Target
from stoker_lab.preflight.pages import Page, PageClient
from stoker_lab.preflight.table import NAMES
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.testing.faults.__main__ import main
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.grafts import GRAFTS
from stoker_lab.testing.faults.proxy import FaultProxy
from stoker_lab.testing.faults.table import FAULTS, NONE
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer


def test_there_are_enough_and_each_names_gates_that_there_are() -> None:
    assert len(FAULTS) >= 25
    for fault in FAULTS.values():
        assert fault.checks <= set(NAMES), fault.name
        assert fault.checks
        assert set(fault.needed_abilities) <= set(GRAFTS)


def test_every_gate_that_judges_has_a_fault_that_it_names() -> None:
    named = {check for fault in FAULTS.values() for check in fault.checks}
    assert set(NAMES) == named


def test_the_program_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(FAULTS)
    assert any(line.startswith("double-bos ") and line.endswith("(template)") for line in lines)


@pytest.mark.parametrize("given", [["--fault", "nonsense"], ["--fault", "loop", "--upstream", "no address"]])
def test_the_program_refuses_what_there_is_not(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(given)
    assert left.value.code == 2


def through(fault: ServingFault, script: Script, stream: bool) -> tuple[ModelReply, ModelReply, Page]:
    """The same request directly and through the proxy, and the list of models there."""

    async def run() -> tuple[ModelReply, ModelReply, Page]:
        document = {"messages": [{"role": "user", "content": "hi"}], "stream": stream}
        async with ScriptedServer(script) as server:
            target = Target("127.0.0.1", server.port, "", script.id)
            async with FaultProxy(target, fault) as proxy:
                there = Target("127.0.0.1", proxy.port, "", script.id)
                look = PageClient(there)
                one, other = await ModelClient(target).ask(document), await ModelClient(there).ask(document)
                return one, other, await look.get("/v1/models")

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_without_a_fault_nothing_changes(stream: bool) -> None:
    own, passed, models = through(NONE, Script(), stream)
    assert (passed.text, passed.timing.stop, passed.timing.status) == (own.text, own.timing.stop, 200)
    assert len(passed.frames) == len(own.frames)
    assert models.document["data"][0]["id"] == "scripted"


def test_an_upstream_that_is_not_there_is_a_502() -> None:
    async def run() -> Page:
        async with FaultProxy(Target("127.0.0.1", 1, "", "m"), NONE) as proxy:
            return await PageClient(Target("127.0.0.1", proxy.port, "", "m")).get("/v1/models")

    assert asyncio.run(run()).status == 502


def test_a_text_that_is_changed_keeps_the_frames_of_its_stream() -> None:
    own, changed, _ = through(FAULTS["special-token-leaked"], Script(), True)
    assert changed.text == own.text + "<|im_end|>"
    assert len(changed.frames) == len(own.frames)
    assert json.loads(changed.frames[0])["object"] == "chat.completion.chunk"
