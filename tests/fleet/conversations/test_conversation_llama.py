"""With the real llama.cpp: a conversation survives a swap, and nobody goes on with somebody else's."""

from __future__ import annotations

import logging
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.conversations.desk import LONG, PATHS, PATIENT, payload_of

from stoker.domain.dialect import Dialect
from stoker.fleet.conversations.store import ConversationStore, SavedConversation
from stoker.http import client

pytestmark = pytest.mark.llama
Tell = Callable[..., None]
FEW = 60
"""Tokens of a short new turn with its template, of about four hundred."""


def test_after_a_swap_and_back_only_the_new_turn_is_read(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        first = await desk.ask("ann", LONG)
        assert first["read"] > 300
        assert first["restored"] is None
        await desk.swap_away_and_back()
        second = await desk.ask("ann", LONG, "Yes.", "And now?")
        assert second["restored"] > 300
        assert second["read"] < FEW
        await desk.swap_away_and_back()
        third = await desk.ask("ann", LONG, "Yes.", "And now?", "No.", "Why?")
        assert third["restored"] > second["restored"], "what was added is saved too"
        assert third["read"] < FEW
        [file] = desk.files()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    tell(story)


def test_without_saving_everything_is_read_again(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        desk.engine.end()
        await desk.start()
        again = await desk.ask("ann", LONG, "Yes.", "And now?")
        assert again["read"] > 300, "or the other stories say nothing"

    tell(story)


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES])
def test_it_survives_in_every_dialect_that_has_conversations(tell: Tell, dialect: Dialect) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG, dialect=dialect)
        await desk.swap_away_and_back()
        assert (await desk.ask("ann", LONG, "Yes.", "And now?", dialect=dialect))["read"] < FEW

    tell(story)


def test_two_keys_with_the_same_words_share_nothing(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        assert (await desk.ask("ann", LONG))["read"] < FEW, "the engine does go on where it can"
        assert (await desk.ask("bob", LONG))["read"] > 300, "in the same sequence"
        await desk.ask("ann", LONG)
        await desk.swap_away_and_back()
        bob = await desk.ask("bob", LONG)
        assert bob["restored"] is None
        assert bob["read"] > 300
        ann = await desk.ask("ann", LONG)
        assert ann["restored"]
        assert ann["read"] < FEW

    tell(story)


def test_completions_are_kept_apart_too_but_not_saved(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG, dialect=Dialect.COMPLETIONS)
        assert (await desk.ask("ann", LONG, dialect=Dialect.COMPLETIONS))["read"] < FEW
        assert (await desk.ask("bob", LONG, dialect=Dialect.COMPLETIONS))["read"] > 300
        await desk.stop()
        await desk.keeper.close()
        assert desk.files() == []

    tell(story)


def test_each_conversation_has_its_sequence_and_all_survive(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        said = [f"{name}: {LONG}" for name in ("one", "two", "three")]
        first = [await desk.ask("ann", words) for words in said]
        assert sorted(turn["sequence"] for turn in first) == [0, 1, 2]
        await desk.swap_away_and_back()
        for words in reversed(said):
            assert (await desk.ask("ann", words, "Yes.", "And now?"))["read"] < FEW

    tell(story, parallel=3)


def test_a_later_control_plane_restores_what_an_earlier_one_saved(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        await desk.keeper.close()
        desk.open()
        await desk.start()
        assert (await desk.ask("ann", LONG, "Yes.", "And now?"))["read"] < FEW

    tell(story)


def test_in_an_adopted_engine_nobody_meets_what_was_there(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        engine = await desk.start()
        await desk.ask("ann", LONG)
        desk.keeper.started(desk.serve, engine.address, engine.facts, is_fresh=False)
        assert (await desk.ask("bob", LONG))["read"] > 300

    tell(story)


def _cut(path: Any) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Any) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [_cut, _flip])
def test_a_spoilt_file_costs_a_prefill_and_nothing_else(
    tell: Tell, spoil: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        await desk.keeper.close()
        [file] = desk.files()
        spoil(file)
        engine = await desk.start()
        again = await desk.ask("ann", LONG, "Yes.", "And now?")
        assert again["restored"] is None
        assert again["read"] > 300
        assert engine.process.poll() is None, "given half a file, llama.cpp ends"
        assert desk.files() == []
        assert desk.keeper.statistics().not_restored == 1
        assert "was changed on disk" in caplog.text

    tell(story)


def test_what_the_engine_does_not_take_is_removed_and_read_again(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = ConversationStore.keep

    def keep_changed(store: ConversationStore, draft: Path, *rest: Any) -> SavedConversation | None:
        content = bytearray(draft.read_bytes())
        content[0] ^= 0xFF  # as if an older engine had written it
        draft.write_bytes(content)
        return keep(store, draft, *rest)

    async def story(desk: Any) -> None:
        monkeypatch.setattr(ConversationStore, "keep", keep_changed)
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        await desk.keeper.close()
        assert len(desk.files()) == 1
        await desk.start()
        again = await desk.ask("ann", LONG)
        assert again["restored"] is None
        assert again["read"] > 300
        assert desk.files() == []

    tell(story)


def test_other_weights_under_the_same_name_restore_nothing(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        os.utime(desk.model, (1, 1))
        await desk.start()
        assert (await desk.ask("ann", LONG))["read"] > 300

    tell(story)


def test_another_context_restores_nothing(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        desk.serve = type(desk.serve)(
            name="tiny", model=str(desk.model), keep_conversations=True, parallel=1, context=512
        )
        await desk.start()
        assert (await desk.ask("ann", LONG))["restored"] is None

    tell(story)


def test_an_engine_that_does_not_answer_delays_the_stop_by_the_bound_and_leaves_nothing(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        engine = await desk.start()
        await desk.ask("ann", LONG)
        engine.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, engine.process.pid, os.WSTOPPED | os.WNOWAIT)  # a busy machine takes its time
        await desk.keeper.save("tiny")
        assert desk.files() == []
        # It wakes up and writes after all, unless it notices that nobody waits; then it is killed.
        engine.process.send_signal(signal.SIGCONT)
        await client.ask(engine.address, PATHS[Dialect.COMPLETIONS], payload_of(Dialect.COMPLETIONS, "ann"), PATIENT)
        engine.end(signal.SIGKILL)
        left = desk.files()
        await desk.start()
        assert not any(path.exists() for path in left), "what it left is a draft, and gone with the next start"
        assert (await desk.ask("ann", LONG))["read"] > 300

    tell(story, save_within=0.2)


def test_a_full_disk_costs_the_conversation_and_leaves_no_half_file(
    tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(desk: Any) -> None:
        engine = await desk.start()
        await desk.ask("ann", LONG)
        _, most = resource.prlimit(engine.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(engine.process.pid, resource.RLIMIT_FSIZE, (20_000, most))
        await desk.keeper.save("tiny")
        assert desk.files() == []
        assert "was not saved" in caplog.text
        assert engine.process.poll() is None
        engine.end()
        await desk.start()
        assert (await desk.ask("ann", LONG))["read"] > 300

    caplog.set_level(logging.WARNING)
    tell(story)


def test_the_budget_keeps_the_most_recent_conversations(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        said = [f"{name}: {LONG}" for name in ("one", "two", "three")]
        for words in said:
            desk.clock.advance(1)
            await desk.ask("ann", words)
        await desk.stop()
        await desk.keeper.close()
        sizes = [path.stat().st_size for path in desk.files()]
        assert len(sizes) == 2
        assert sum(sizes) <= 500_000
        await desk.start()
        restored = [(await desk.ask("ann", words))["restored"] is not None for words in said]
        assert restored == [False, True, True]

    tell(story, parallel=3, budget=500_000)


def test_a_conversation_that_is_too_old_is_read_again(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        desk.clock.advance(desk.settings.age)
        await desk.start()
        assert (await desk.ask("ann", LONG))["restored"] is None

    tell(story)


def test_an_unload_by_the_operator_leaves_nothing(tell: Tell) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann", LONG)
        await desk.stop()
        await desk.keeper.forget("tiny")
        assert desk.files() == []
        await desk.start()
        assert (await desk.ask("ann", LONG))["read"] > 300

    tell(story)


def test_no_prompt_stands_in_a_name_or_in_the_log(tell: Tell, caplog: pytest.LogCaptureFixture) -> None:
    async def story(desk: Any) -> None:
        await desk.start()
        await desk.ask("ann-is-secret", "marmalade " + LONG)
        await desk.swap_away_and_back()
        await desk.ask("ann-is-secret", "marmalade " + LONG)
        seen = caplog.text + " ".join(map(str, desk.files()))
        assert "marmalade" not in seen
        assert "ann-is-secret" not in seen

    caplog.set_level(logging.DEBUG)
    tell(story)
