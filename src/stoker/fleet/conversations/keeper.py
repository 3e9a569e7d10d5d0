"""The IO shell: gives each conversation a sequence of its own, saves what is worth it before a stop, and restores it.

The supervisor says when an engine has started, is about to be stopped, has stopped; the flow asks for a stay per
request. Everything here belongs to the event loop's thread; files are read in others.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stoker.blocking import StillBlocked, at_once
from stoker.domain.access import Conversations
from stoker.domain.conversation import identity
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock
from stoker.domain.serve import Driver, Serve
from stoker.engines.registry import engine_of
from stoker.fleet.conversations.sequences import EngineRun, Save, SequencePlace, Sequences, SequenceUse, no_room_made
from stoker.fleet.conversations.store import ConversationStore, SavedConversation
from stoker.fleet.process.identity import KeySigner, fingerprint
from stoker.fleet.weights.serve_weights import weights_of
from stoker.http import client
from stoker.http.client import NoResponse

EASING = 0.75
"""What was too slow once is tried again after some swaps: a disk is not always busy."""


class SaveRate:
    """Of one serve. Seconds per token."""

    def __init__(self) -> None:
        self._per_token: float | None = None

    def fits(self, tokens: int | None, seconds: float) -> bool:
        """Whether saving so many tokens in so much time is worth a try. What is not known is."""
        if seconds <= 0:
            return False
        if tokens is None or self._per_token is None or tokens * self._per_token <= seconds:
            return True
        self._per_token *= EASING
        return False

    def on_saved(self, tokens: int, seconds: float) -> None:
        """It took `seconds`."""
        if tokens > 0:
            self._per_token = seconds / tokens

    def on_late(self, tokens: int | None, seconds: float) -> None:
        """It was not done after `seconds`."""
        if tokens:
            self._per_token = max(self._per_token or 0.0, 2 * seconds / tokens)


class SlotRefused(Exception):
    """The engine refused, or its answer has no numbers. The sequence is unchanged."""


class SlotUnanswered(Exception):
    """No answer: the engine may or may not have done it, and may still do it."""


async def save_sequence(address: Target, sequence: int, name: str, within: float) -> tuple[int, int]:
    """Save a sequence to file `name`; returns (tokens, bytes). Raises SlotRefused, and SlotUnanswered
    after `within` seconds.
    """
    found = await _ask(address, sequence, "save", {"filename": name}, within)
    return _number(found, "n_saved"), _number(found, "n_written")


async def restore_sequence(address: Target, sequence: int, name: str, within: float) -> int:
    """Load a sequence from file `name`; returns its tokens. Raises SlotRefused and SlotUnanswered.

    A truncated file crashes the engine.
    """
    return _number(await _ask(address, sequence, "restore", {"filename": name}, within), "n_restored")


async def erase_sequence(address: Target, sequence: int, within: float) -> None:
    """Clear a sequence. Raises SlotRefused and SlotUnanswered."""
    _number(await _ask(address, sequence, "erase", {}, within), "n_erased")


async def _ask(address: Target, sequence: int, action: str, payload: dict[str, str], within: float) -> Any:
    try:
        answer = await client.ask(address, f"/slots/{sequence}?action={action}", payload, within)
    except NoResponse as error:
        raise SlotUnanswered(str(error)) from None
    if answer.status != 200:
        raise SlotRefused(f"it answered {answer.status} to `{action}`")
    return answer.json()


def _number(found: Any, name: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise SlotRefused(f"its answer has no `{name}`")
    return value


VERB_LIMIT = 30.0
"""Seconds that an erase or a restore may take. An engine that is busy answers when its step is done."""
_SHORTEST_TIMER, _LONGEST_TIMER = 0.05, 86_400.0
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ConversationStatistics:
    """What is on disk, and what came of it since we started. `size` in bytes."""

    files: int
    size: int
    saved: int
    not_saved: int
    restored: int
    not_restored: int
    """There was a file, and it could not be used."""


def saves_conversations(serve: Serve) -> bool:
    """Whether conversations of this serve are saved: configured, and an engine that Stoker starts and that can."""
    is_ours = serve.driver is Driver.PROCESS and serve.cmd is None
    return serve.keep_conversations and engine_of(serve.engine).saves_conversations and is_ours


class ConversationKeeper:
    def __init__(
        self, root: Path, settings: Conversations, signer: KeySigner, clock: Clock, log: logging.Logger
    ) -> None:
        """Reads what is saved below `root`."""
        self._settings = settings
        self._signer = signer
        self._clock = clock
        self._log = log
        self._store = ConversationStore(
            root, settings.budget, settings.age, lambda: self._secret("saved"), clock.wall, log
        )
        self._runs: dict[str, EngineRun] = {}
        self._paces: dict[str, SaveRate] = {}
        self._sealing: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._saved = self._not_saved = self._restored = self._not_restored = 0
        self._is_closed = False

    # -- what the supervisor says ------------------------------------------------------------------------------------

    def directory(self, serve: Serve) -> str | None:
        """Where its engine is to write; made, private. Ends with a slash. None: nothing is kept for it."""
        if not saves_conversations(serve):
            return None
        try:
            return f"{self._store.folder(serve.name)}/"
        except OSError as error:
            self._log.error("conversations of serve %s are not saved: %s", serve.name, error.strerror)
            return None

    def started(self, serve: Serve, address: Target, facts: Mapping[str, Any], is_fresh: bool) -> None:
        """It is ready. `is_fresh`: no request has reached it; False for one that was adopted."""
        self.stopped(serve.name)
        count = facts.get("total_slots")
        if not saves_conversations(serve):
            return
        if not isinstance(count, int) or count < 1:  # numbers beyond the last one mean any sequence to llama.cpp
            self._log.error(
                "conversations of serve %s are not saved: it does not report its number of sequences (`total_slots`)",
                serve.name,
            )
            return
        launch = self._signer.digest("conversations", fingerprint(serve, self._signer), _build(facts), _weights(serve))
        self._runs[serve.name] = EngineRun(serve, address, launch, Sequences(count, is_fresh))

    def stopped(self, name: str) -> None:
        """It has ended, or is about to without anything being saved."""
        if (run := self._runs.pop(name, None)) is not None:
            run.end()

    async def save(self, name: str) -> None:
        """The serve is about to stop and gets no more requests. Takes `save_within` seconds at most. Raises nothing.

        On cancel, saves in progress are finished within the same bound.
        """
        if (run := self._runs.pop(name, None)) is not None:
            run.end()
            await asyncio.shield(self._spawn(self._save_all(run)))

    async def forget(self, name: str) -> None:
        """The operator unloaded it: nothing of it stays on disk."""
        for (serve, _), sealing in list(self._sealing.items()):
            if serve == name:
                await asyncio.wait([sealing])
        await asyncio.to_thread(self._store.drop, name)

    def reload(self, settings: Conversations, serves: Iterable[Serve]) -> None:
        """The configuration, at the start and whenever it is read again."""
        self._settings = settings
        kept = [serve.name for serve in serves if saves_conversations(serve)]

        def change() -> None:
            self._store.drop_all_but(kept)
            self._store.change(settings.budget, settings.age)

        self._spawn(self._in_order(change))

    def statistics(self) -> ConversationStatistics:
        return ConversationStatistics(
            self._store.files, self._store.size, self._saved, self._not_saved, self._restored, self._not_restored
        )

    async def close(self) -> None:
        """Waits for what is being written. On cancel that goes on, and the call returns when it is done."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        is_cancelled = False
        while self._tasks:
            try:
                await asyncio.wait(list(self._tasks))
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    # -- what the flow asks ------------------------------------------------------------------------------------------

    def begin(self, serve: Serve, target: Target, key: str, dialect: Dialect, body: bytes) -> SequenceUse | None:
        run = self._runs.get(serve.name)
        if (
            run is None
            or not dialect.spec.generates
            or (run.address.host, run.address.port) != (target.host, target.port)
        ):
            return None
        conversation = identity(self._secret("identity"), run.launch, key, dialect, body)
        return SequenceUse(run, (key, conversation, len(body)), self._settle, self._spawn)

    async def _settle(self, run: EngineRun, place: SequencePlace) -> int | None:
        """Have in the place's sequence what belongs there. Tokens restored; None: none.

        Raises UpstreamError. It is never abandoned: the next verb could overtake this one.
        """
        try:
            if place.erase:
                await erase_sequence(run.address, place.sequence.number, VERB_LIMIT)
            run.sequences.on_claimed(place)
            restored = await self._restore(run, place)
        except SlotUnanswered as failure:
            run.sequences.on_lost(place)
            raise no_room_made(run.serve, str(failure)) from None
        except SlotRefused as failure:
            if self._runs.get(run.serve.name) is run:
                self._log.error("conversations of serve %s are not saved: %s", run.serve.name, failure)
                self.stopped(run.serve.name)
            raise no_room_made(run.serve, str(failure)) from None
        run.sequences.on_ready(place)
        return restored

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _restore(self, run: EngineRun, place: SequencePlace) -> int | None:
        """Raises SlotUnanswered, and SlotRefused if what was half restored cannot be erased."""
        if place.conversation is None or place.is_there:
            return None
        name, number = run.serve.name, place.sequence.number
        while (sealing := self._sealing.get((name, place.conversation))) is not None:
            await asyncio.wait([sealing])
        saved = self._store.find(name, place.conversation)
        if saved is None:
            return None
        if not await asyncio.to_thread(self._store.prove, saved):
            self._not_restored += 1
            return None
        try:
            tokens = await restore_sequence(run.address, number, saved.name, VERB_LIMIT)
        except SlotRefused as failure:
            self._not_restored += 1
            self._log.warning("a saved conversation of serve %s cannot be used: %s", name, failure)
            self._store.remove(saved)
            await erase_sequence(run.address, number, VERB_LIMIT)
            return None
        self._restored += 1
        self._store.touch(saved)
        self._arm()
        return tokens

    async def _save_all(self, run: EngineRun) -> None:
        """The most recent first, as long as there is time."""
        name, wall = run.serve.name, self._clock.wall()
        until = self._clock.now() + self._settings.save_within
        pace = self._paces.setdefault(name, SaveRate())
        for rank, save in enumerate(run.sequences.on_stop()):
            left = until - self._clock.now()
            if not pace.fits(save.tokens, left):
                self._not_saved += 1
                self._log.info("a conversation of serve %s is not saved: not enough time", name)
                continue
            # In the store, too, the most recent one is to be the last to go.
            await self._save(run, save, left, wall - rank / 1000, pace)

    async def _save(self, run: EngineRun, save: Save, within: float, used: float, pace: SaveRate) -> None:
        name, began = run.serve.name, self._clock.now()
        try:
            draft = self._store.draft(name)
        except OSError as error:
            self._not_saved += 1
            self._log.warning("a conversation of serve %s was not saved: %s", name, error.strerror)
            return
        try:
            tokens, size = await save_sequence(run.address, save.number, draft.name, within)
        except (SlotRefused, SlotUnanswered) as failure:
            self._store.discard(draft)
            self._not_saved += 1
            self._log.warning("a conversation of serve %s was not saved: %s", name, failure)
            if isinstance(failure, SlotUnanswered):
                pace.on_late(save.tokens, within)
            return
        pace.on_saved(tokens, self._clock.now() - began)
        sealing = self._spawn(self._seal(draft, SavedConversation(name, save.conversation, tokens, "", size, used)))
        self._sealing[name, save.conversation] = sealing

    async def _seal(self, draft: Path, saved: SavedConversation) -> None:
        """What was written is proved and gets its name, while the next engine starts."""
        name, conversation = saved.serve, saved.conversation
        try:
            kept = await asyncio.to_thread(
                self._store.keep, draft, name, conversation, saved.tokens, saved.size, saved.used
            )
        finally:
            if self._sealing.get((name, conversation)) is asyncio.current_task():
                del self._sealing[name, conversation]
        self._saved += kept is not None
        self._not_saved += kept is None
        self._arm()

    # -- small things ------------------------------------------------------------------------------------------------

    def _secret(self, purpose: str) -> bytes:
        """32 bytes. Raises StokerError `state_unusable`."""
        return bytes.fromhex(self._signer.digest("conversations", purpose))

    def _arm(self) -> None:
        """What gets too old is removed then, not at the next occasion."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._store.due()
        if due is not None and not self._is_closed:
            delay = min(max(due, _SHORTEST_TIMER), _LONGEST_TIMER)
            sweep = partial(self._in_order, self._store.sweep)
            self._timer = asyncio.get_running_loop().call_later(delay, lambda: self._spawn(sweep()))

    async def _in_order(self, change: Callable[[], None]) -> None:
        await asyncio.to_thread(change)
        self._arm()

    def _spawn(self, work: Coroutine[Any, Any, Found]) -> asyncio.Task[Found]:
        task = asyncio.get_running_loop().create_task(work, name="conversations")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, UpstreamError):
            self._log.error("saving conversations failed inside Stoker", exc_info=error)


def _build(facts: Mapping[str, Any]) -> str:
    return str(facts.get("build", ""))


def _weights(serve: Serve) -> str:
    """Changes whenever the files change, even if their names stay. Empty: their file system does not answer."""

    def read() -> str:
        found = [(path, os.stat(path)) for path in sorted(weights_of(serve))]
        return repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in found])

    try:
        return at_once(read, f"the weights of serve '{serve.name}'")
    except (StillBlocked, OSError):
        return ""
