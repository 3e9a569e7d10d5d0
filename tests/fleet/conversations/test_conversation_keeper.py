"""The keeper beside an engine that does what a test says: what is not answered, what is cancelled, who waits."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.access import Conversations
from stoker.domain.conversation import SequenceLease
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.serve import Driver, Serve
from stoker.fleet.conversations import keeper as keeping
from stoker.fleet.conversations.keeper import ConversationKeeper, ConversationStatistics, saves_conversations
from stoker.fleet.conversations.sequences import SequenceUse
from stoker.fleet.conversations.store import ConversationStore, SavedConversation
from stoker.fleet.process.identity import KeySigner
from stoker_lab.testing.clock import FakeClock

SERVE = Serve(name="fast", model="hub/id", keep_conversations=True)


class Engine:
    """Answers the slot verbs; `asked` lists them. A verb in `held` waits for `let_go`, one in `refused` is refused."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self.asked: list[str] = []
        self.held: set[str] = set()
        self.refused: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.go = asyncio.Event()
        self._folder = folder

    async def open(self) -> Target:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Target("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self.go.set()
        self._server.close()
        await self._server.wait_closed()

    async def until(self, count: int) -> None:
        """Until so many verbs were asked."""
        async with asyncio.timeout(5):
            while len(self.asked) < count:
                await asyncio.sleep(0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        payload = json.loads(await reader.readexactly(length))
        number, _, action = head.split(" ")[1].removeprefix("/slots/").partition("?action=")
        self.asked.append(f"{action} {number}")
        if action in self.held:
            await self.go.wait()
        status, answer = (500, {}) if action in self.refused else (200, self._do(action, payload))
        body = json.dumps(self.answers.get(action, answer)).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        writer.close()

    def _do(self, action: str, payload: dict[str, str]) -> dict[str, int]:
        if action == "save":
            (self._folder() / payload["filename"]).write_bytes(b"kv" * 10)
            return {"n_saved": 10, "n_written": 20}
        return {"n_restored": 10} if action == "restore" else {"n_erased": 10}


class Bench:
    """One keeper, one engine that has just started."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.root = directory / "conversations"
        self.clock = FakeClock()
        self.settings = Conversations(**settings)
        log = logging.getLogger("test.conversations")
        self.keeper = ConversationKeeper(self.root, self.settings, KeySigner(lambda: bytes(32)), self.clock, log)
        self.engine = Engine(lambda: self.root / "fast")
        self.address = Target("", 0)

    async def open(self) -> None:
        self.address = await self.engine.open()

    def started(self, serve: Serve = SERVE, slots: Any = 1, is_fresh: bool = True) -> None:
        self.keeper.directory(serve)
        self.keeper.started(serve, self.address, {"total_slots": slots}, is_fresh)

    def begin(self, key: str = "ann", words: str = "Hello.", dialect: Dialect = Dialect.CHAT) -> SequenceLease | None:
        body = json.dumps({"messages": [{"role": "user", "content": words}]}).encode()
        target = Target(self.address.host, self.address.port, "", "fast")
        return self.keeper.begin(SERVE, target, key, dialect, body)

    async def stay(self, key: str = "ann", words: str = "Hello.") -> SequenceLease:
        """Prepared."""
        stay = self.begin(key, words)
        assert stay is not None
        await stay.prepare()
        return stay

    async def turn(self, key: str = "ann", words: str = "Hello.") -> SequenceLease:
        """A whole request."""
        stay = await self.stay(key, words)
        stay.release(10)
        return stay

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file()]


Story = Callable[[Bench], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def run(story: Story, **settings: Any) -> None:
        async def whole() -> None:
            bench = Bench(tmp_path, **settings)
            await bench.open()
            try:
                await story(bench)
            finally:
                await bench.engine.close()
                await bench.keeper.close()

        asyncio.run(whole())

    return run


# -- whom it is for ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        replace(SERVE, keep_conversations=False),
        replace(SERVE, engine="vllm"),
        replace(SERVE, cmd=("llama-server",)),
        replace(SERVE, driver=Driver.COMPOSE),
        replace(SERVE, driver=Driver.EXTERNAL),
    ],
)
def test_only_a_llama_cpp_whose_command_line_is_ours_keeps_conversations(play: Play, other: Serve) -> None:
    async def story(bench: Bench) -> None:
        assert saves_conversations(SERVE)
        assert not saves_conversations(other)
        assert bench.keeper.directory(other) is None
        bench.started(other)
        assert bench.begin() is None

    play(story)


@pytest.mark.parametrize("slots", [None, 0, "four"])
def test_an_engine_that_does_not_say_how_many_sequences_it_has_keeps_none(play: Play, slots: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.started(slots=slots)
        assert bench.begin() is None

    play(story)


def test_what_takes_no_sequence_gets_none(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        assert bench.begin(dialect=Dialect.EMBEDDINGS) is None
        assert bench.begin(dialect=Dialect.COMPLETIONS) is not None
        bench.address = Target("127.0.0.1", bench.address.port + 1)
        assert bench.begin() is None, "the lease is for an engine that is no more"

    play(story)


def test_a_directory_that_cannot_be_made_is_said_in_the_log(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        bench.root.write_text("in the way")
        assert bench.keeper.directory(SERVE) is None
        assert "serve fast are not saved" in caplog.text

    play(story)


# -- one at a time, and nobody else's ----------------------------------------------------------------------------------


def test_who_finds_all_in_use_waits_in_order(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        first = await bench.stay()
        order: list[str] = []

        async def come(name: str) -> None:
            await bench.turn("ann", name)
            order.append(name)

        async with asyncio.TaskGroup() as tasks:
            for name in ("second", "third", "fourth"):
                tasks.create_task(come(name))
                await asyncio.sleep(0)
            assert order == []
            first.release(10)
        assert order == ["second", "third", "fourth"]

    play(story)


def test_who_leaves_while_waiting_passes_the_turn_on(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        first = await bench.stay()
        leaves = asyncio.get_running_loop().create_task(bench.turn("ann", "leaves"))
        stays = asyncio.get_running_loop().create_task(bench.turn("ann", "stays"))
        await asyncio.sleep(0)
        first.release(10)  # it is the first one's turn now
        leaves.cancel()
        async with asyncio.timeout(5):
            await stays
        assert leaves.cancelled()

    play(story)


def test_who_waits_for_an_engine_that_stops_hears_of_it(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.stay()
        waiting = asyncio.get_running_loop().create_task(bench.turn())
        await asyncio.sleep(0)
        bench.keeper.stopped("fast")
        with pytest.raises(UpstreamError) as failure:
            await waiting
        assert failure.value.code == "unreachable"
        assert bench.begin() is None

    play(story)


def test_a_cancelled_erase_is_not_overtaken(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn("ann")
        bench.engine.held = {"erase"}
        bob = bench.begin("bob")
        assert bob is not None
        preparing = asyncio.get_running_loop().create_task(bob.prepare())
        await bench.engine.until(1)
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing
        bob.release(None)
        ann = asyncio.get_running_loop().create_task(bench.stay("ann"))
        await asyncio.sleep(0.01)
        assert not ann.done(), "the erase may still come, and would hit what comes next"
        bench.engine.go.set()
        await ann
        assert bench.engine.asked == ["erase 0", "erase 0"], "bob's, and one for ann: it was bob's by then"

    play(story)


def test_what_is_broken_off_keeps_its_sequence_for_a_moment(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        ann = await bench.stay("ann")
        ann.release(None)
        bob = asyncio.get_running_loop().create_task(bench.stay("bob"))
        await asyncio.sleep(0.01)
        assert bench.engine.asked == []
        async with asyncio.timeout(5):
            await bob
        assert bench.engine.asked == ["erase 0"]

    play(story)


def test_who_ends_twice_gives_nobody_elses_sequence_back(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        first = await bench.turn()
        second = await bench.stay()
        first.release(10)
        third = asyncio.get_running_loop().create_task(bench.stay())
        await asyncio.sleep(0.01)
        assert not third.done()
        second.release(10)
        await third

    play(story)


def test_an_unanswered_erase_costs_the_sequence(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "VERB_LIMIT", 0.05)

    async def story(bench: Bench) -> None:
        bench.started(slots=2, is_fresh=False)
        bench.engine.held = {"erase"}
        for _ in range(2):
            bob = bench.begin("bob")
            assert bob is not None
            with pytest.raises(UpstreamError) as failure:
                await bob.prepare()
            assert failure.value.code == "unreachable"
            assert bob.sequence is None
            bob.release(None)
        with pytest.raises(UpstreamError, match="does not answer"):
            await bench.stay("bob")
        assert bench.engine.asked == ["erase 0", "erase 1"]

    play(story)


def test_an_engine_that_cannot_erase_keeps_no_conversations(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        bench.started(is_fresh=False)
        bench.engine.refused = {"erase"}
        with pytest.raises(UpstreamError):
            await bench.stay()
        assert bench.begin() is None, "the next try goes without"
        assert "serve fast are not saved" in caplog.text

    play(story)


# -- saving ------------------------------------------------------------------------------------------------------------


async def _swap(bench: Bench) -> None:
    await bench.keeper.save("fast")
    bench.engine.asked.clear()
    bench.started()


def test_a_restore_waits_for_the_save_before_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    may_keep = threading.Event()
    keep = ConversationStore.keep

    def keep_later(*given: Any) -> SavedConversation | None:
        assert may_keep.wait(5)
        return keep(*given)

    async def story(bench: Bench) -> None:
        monkeypatch.setattr(ConversationStore, "keep", keep_later)
        bench.started()
        await bench.turn()
        await _swap(bench)
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(bench.turn())
            await asyncio.sleep(0)
            assert [path.suffix for path in bench.files()] == [".part"], "it is not proved yet"
            may_keep.set()
        assert turn.result().restored == 10
        assert bench.engine.asked == ["restore 0"]
        assert bench.keeper.statistics() == ConversationStatistics(1, 20, 1, 0, 1, 0)

    play(story)


def test_a_refused_restore_is_cold_and_leaves_nothing_half_done(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await _swap(bench)
        bench.engine.refused = {"restore"}
        assert (await bench.turn()).restored is None
        assert bench.engine.asked == ["restore 0", "erase 0"]
        assert bench.files() == []

    play(story)


def test_an_unanswered_restore_costs_the_sequence(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await _swap(bench)
        bench.engine.held = {"restore"}
        monkeypatch.setattr(keeping, "VERB_LIMIT", 0.05)
        with pytest.raises(UpstreamError):
            await bench.stay()

    play(story)


def test_saving_takes_no_longer_than_it_may(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started(slots=3)
        for words in ("one", "two", "three"):
            await bench.turn("ann", words)
        bench.engine.held = {"save"}
        saving = asyncio.get_running_loop().create_task(bench.keeper.save("fast"))
        await bench.engine.until(1)
        bench.clock.advance(0.1)
        async with asyncio.timeout(5):
            await saving
        assert bench.engine.asked == ["save 2"], "the most recent one had all the time there was"
        assert bench.keeper.statistics().not_saved == 3
        assert bench.files() == []

    play(story, save_within=0.1)


def test_what_was_too_slow_is_not_tried_again_at_once(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        bench.engine.held = {"save"}
        await bench.keeper.save("fast")
        bench.started()
        await bench.turn()
        bench.engine.asked.clear()
        await bench.keeper.save("fast")
        assert bench.engine.asked == []
        assert bench.keeper.statistics().not_saved == 2

    play(story, save_within=0.05)


def test_who_is_cancelled_while_saving_leaves_no_draft(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        bench.engine.held = {"save"}
        saving = asyncio.get_running_loop().create_task(bench.keeper.save("fast"))
        await bench.engine.until(1)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        bench.engine.go.set()
        await bench.keeper.close()
        assert [path.suffix for path in bench.files()] == [".kv"], "what was under way was finished"

    play(story)


@pytest.mark.parametrize("answer", [{}, {"n_saved": 10, "n_written": True}, {"n_saved": 10, "n_written": 21}, []])
def test_an_answer_that_does_not_fit_saves_nothing(play: Play, answer: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        bench.engine.answers["save"] = answer
        await bench.keeper.save("fast")
        await bench.keeper.close()
        assert bench.files() == []
        assert bench.keeper.statistics().not_saved == 1

    play(story)


def test_saving_what_does_not_run_is_nothing(play: Play) -> None:
    async def story(bench: Bench) -> None:
        await bench.keeper.save("fast")
        bench.started()
        await bench.keeper.save("fast")
        assert bench.engine.asked == []

    play(story)


def test_a_directory_that_has_gone_costs_the_conversation(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        (bench.root / "fast").rmdir()
        await bench.keeper.save("fast")
        assert "was not saved: No such file" in caplog.text

    play(story)


# -- removal -----------------------------------------------------------------------------------------------------------


def test_what_gets_too_old_is_removed_then(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await bench.keeper.save("fast")
        async with asyncio.timeout(5):
            while not bench.keeper.statistics().saved:
                await asyncio.sleep(0.001)
            bench.clock.advance(1)
            while bench.files():
                await asyncio.sleep(0.001)

    play(story, age=0.1)


def test_an_unload_waits_for_what_is_being_written_and_removes_it(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await bench.keeper.save("fast")
        await bench.keeper.forget("fast")
        assert bench.files() == []
        assert bench.keeper.statistics().files == 0

    play(story)


def test_a_new_configuration_removes_what_is_kept_no_more(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await bench.keeper.save("fast")
        await bench.keeper.close()
        assert bench.files()
        bench.keeper.reload(bench.settings, [SERVE])
        await bench.keeper.close()
        assert bench.files()
        bench.keeper.reload(bench.settings, [replace(SERVE, keep_conversations=False)])
        await bench.keeper.close()
        assert bench.files() == []

    play(story)


def test_closing_waits_for_what_is_being_written_even_if_cancelled(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        await bench.turn()
        await bench.keeper.save("fast")
        closing = asyncio.get_running_loop().create_task(bench.keeper.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert [path.suffix for path in bench.files()] == [".kv"]

    play(story)


def test_a_bug_of_ours_is_told_in_the_log(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(bench: Bench) -> None:
        def broken(*_: Any) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(ConversationStore, "keep", broken)
        bench.started()
        await bench.turn()
        await bench.keeper.save("fast")
        await bench.keeper.close()
        assert "failed inside Stoker" in caplog.text

    play(story)


def test_a_stay_that_was_never_prepared_gives_nothing_back(play: Play) -> None:
    async def story(bench: Bench) -> None:
        bench.started()
        stay = bench.begin()
        assert isinstance(stay, SequenceUse)
        stay.release(None)
        await bench.keeper.save("fast")
        assert bench.engine.asked == []

    play(story)
