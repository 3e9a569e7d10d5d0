"""The driver of serves in slots of other Stokers.

A start wakes the machine if it sleeps, and sends a request that only loads: it waits in that Stoker's queue as any
other does. From then on requests go there. What that Stoker decides holds: a serve that it has unloaded for others is
stopped here too, which is no failure; the next request asks for it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.domain.errors import StartFailed
from stoker.domain.events import ExtensionEvent
from stoker.domain.serve import BoxPlace, Serve
from stoker.fleet.drivers.unit import DriverContext, Launched, Termination
from stoker.fleet.process.identity import StartRecord
from stoker.http.client import KeptConnection
from stoker_boxes import wake
from stoker_boxes.box_api import BUSY, BoxApi, BoxRefused, BoxSilent
from stoker_boxes.table import Box
from stoker_boxes.there import ServeThere

POLL_INTERVAL = 3.0
"""Seconds between two questions about a serve that is loaded there, over a connection whose end is noticed at once."""
RETRY_INTERVAL = 0.5
FAILURES = 3
WAKE_INTERVAL = 1.0
"""Seconds between two packets, and between two questions whether it is awake."""
END_WITHIN = 10.0
UNDO_TRIES = 4


@dataclass(frozen=True, slots=True)
class BoxSeen:
    """A box answered, or did not, and what happens there; `text` is for people."""

    box: str
    state: str
    """`awake`, `waking`, `unreachable`, `refuses`."""
    text: str = ""
    document: Any = None
    """Its status."""


@dataclass(frozen=True, slots=True)
class UnloadedThere:
    """A serve is not loaded in its box any more, or not to be used there as it is: no failure."""

    serve: str
    why: str


class BoxDriver:
    """Implements `drivers.unit.UnitDriver`."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._log = context.log
        self._starts: dict[str, _Start] = {}
        """By nonce, until their unit is made."""

    async def start_problems(self, serve: Serve) -> list[str]:
        """Nothing: what another machine has is known once it is awake."""
        return []

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """See `UnitDriver.launch`: returns when it is loaded there. Raises StartFailed with what the box said."""
        place = _place_of(serve)
        api = self._api(place)
        nonce = secrets.token_hex(8)
        record = StartRecord(
            name=serve.name, pid=0, mark="", command="", fingerprint="", port=0, nonce=nonce, takes_key=False,
            started_at=started_at, log="", grace=serve.stop_grace, driver="box", handle=f"{place.box}/{place.serve}",
            facts={"box": place.box},
        )  # fmt: skip
        intend(record)
        loop, say = asyncio.get_running_loop(), self._context.say_step
        began = loop.time()
        try:
            there, document, is_woken = await self._awake(api, serve, place)
            facts: dict[str, str | int | float] = {"box": place.box}
            if is_woken:
                facts["wake_s"] = round(loop.time() - began, 3)
            self._saw(api, document)
            if not there.is_loaded:
                say(serve.name, f"waits until {place.box} has loaded it")
                try:
                    await self._load(api, serve, place)
                except BoxRefused:
                    raise
                except BaseException:  # also if it is cancelled
                    await self._undo(api, place)
                    raise
        except StartFailed as failure:
            text = f"serve '{serve.name}' was not loaded: {failure.message}"
            raise StartFailed(text, code=failure.code, retry_after=failure.retry_after) from failure
        finally:
            say(serve.name, "")
        self._starts[nonce] = _Start(api, place, is_ours=not there.is_loaded)
        target = api.target(place.serve)
        return Launched(msgspec.structs.replace(record, port=target.port, facts=facts), target, None)

    async def _load(self, api: BoxApi, serve: Serve, place: BoxPlace) -> None:
        """Raises StartFailed."""
        await api.load(place.serve, serve.ready_timeout)
        after, document = await api.serve(place)
        self._saw(api, document)
        if not after.is_loaded:
            why = after.reason or f"it is {after.state}"
            raise BoxRefused(f"box {place.box} did not load serve '{place.serve}': {why}", code=BUSY)

    async def _undo(self, api: BoxApi, place: BoxPlace) -> None:
        """Unloads what may still be loaded there for a start that was given up, once its request has left the queue
        there. Raises nothing but CancelledError.
        """
        with contextlib.suppress(TimeoutError, StartFailed):
            async with asyncio.timeout(END_WITHIN):
                for _ in range(UNDO_TRIES):
                    there, _document = await api.serve(place)
                    if not there.in_use:
                        break
                    await asyncio.sleep(RETRY_INTERVAL)
                if why := await _unload_there(api, place):
                    self._log.info("serve %s may stay loaded in box %s: %s", place.serve, place.box, why)

    async def _awake(self, api: BoxApi, serve: Serve, place: BoxPlace) -> tuple[ServeThere, Any, bool]:
        """What it says, once it is awake, and whether it had to be woken. Raises StartFailed."""
        try:
            return (*await api.serve(place), False)
        except BoxSilent as silent:
            if silent.is_awake or api.box.mac is None:
                advice = f"set `mac` of [boxes.{place.box}] to have it woken"
                advice = "correct its certificate, or `url`" if silent.is_awake else f"start it, or {advice}"
                text = f"{silent.message}: {advice}"
                self._notify(BoxSeen(place.box, "unreachable", text))
                raise StartFailed(text, code=silent.code, retry_after=30.0) from silent
        except BoxRefused as failure:
            self._notify(BoxSeen(place.box, "refuses", failure.message))
            raise
        return (*await self._wake(api, serve, place), True)

    async def _wake(self, api: BoxApi, serve: Serve, place: BoxPlace) -> tuple[ServeThere, Any]:
        """Sends packets until it answers, `wake_timeout` at most. Raises StartFailed."""
        box, loop = api.box, asyncio.get_running_loop()
        assert box.mac is not None
        until, unsent, last = loop.time() + box.wake_timeout, "", ""
        self._context.say_step(serve.name, f"waits for {place.box} to wake")
        self._notify(BoxSeen(place.box, "waking", f"serve '{serve.name}' is wanted there"))
        self._log.info("waking box %s for serve %s", place.box, serve.name)
        while loop.time() < until:
            due = loop.time() + WAKE_INTERVAL
            try:
                wake.send(box.mac, box.wake_address, box.wake_port)
            except OSError as error:
                unsent = f"; the packet could not be sent to {box.wake_address} ({error.strerror or error})"
            try:
                async with asyncio.timeout_at(until):
                    return await api.serve(place)
            except BoxSilent as silent:
                last = silent.message
                if silent.is_awake:
                    raise
            except TimeoutError:
                pass
            except BoxRefused as refused:
                if refused.code != BUSY:  # it may still be starting
                    raise
            await asyncio.sleep(max(0.0, min(due, until) - loop.time()))
        why = unsent or ": is wake-on-LAN switched on in its firmware, and is `mac` right?"
        text = f"box {place.box} did not wake within {box.wake_timeout:g} s{why}{f' At last: {last}' if last else ''}"
        self._notify(BoxSeen(place.box, "unreachable", text))
        raise StartFailed(text, code="box_asleep", retry_after=60.0)

    # -- afterwards --------------------------------------------------------------------------------------------------

    def attach(
        self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]
    ) -> BoxUnit:
        """See `UnitDriver.attach`. Raises ProcessLookupError for a record of an earlier run."""
        start = self._starts.pop(record.nonce, None)
        if start is None:
            raise ProcessLookupError(record.handle)
        box, name = start.api.box, start.place.box
        return BoxUnit(
            record.name, start, on_exit, on_gone, lambda: self._configured(name) == box, self._notify, self._log
        )

    async def find(self, record: StartRecord) -> StartRecord | None:
        """None: nothing runs here, and if it is still loaded there, the next request finds it so."""
        return None

    async def recent_output(self, record: StartRecord) -> str:
        """Nothing: its engine's log is on the other machine."""
        return ""

    def _api(self, place: BoxPlace) -> BoxApi:
        box = self._configured(place.box)
        if box is None:
            raise StartFailed(f"box '{place.box}' is not configured any more", code="cannot_start")
        return BoxApi(place.box, box)

    def _configured(self, name: str) -> Box | None:
        boxes = self._context.table("boxes")
        box = boxes.get(name) if isinstance(boxes, dict) else None
        return box if isinstance(box, Box) else None

    def _saw(self, api: BoxApi, document: Any) -> None:
        self._notify(BoxSeen(api.name, "awake", "", document))

    def _notify(self, event: BoxSeen | UnloadedThere) -> None:
        self._context.notify(ExtensionEvent("boxes", event))


class BoxUnit:
    """Implements `drivers.unit.Unit` for one serve that is loaded in a box. Asks that Stoker every POLL_INTERVAL."""

    pid: int | None = None
    code: int | None = None

    def __init__(
        self, name: str, start: _Start, on_exit: Callable[[int | None], None], on_gone: Callable[[], None],
        is_current: Callable[[], bool], notify: Callable[[BoxSeen | UnloadedThere], None], log: logging.Logger,
    ) -> None:  # fmt: skip
        self.ended_how = ""
        self._name = name
        self._api, self._place, self._is_ours = start.api, start.place, start.is_ours
        self._on_exit: Callable[[int | None], None] | None = on_exit
        self._is_current = is_current
        self._notify = notify
        self._log = log
        self._connection = KeptConnection()
        self._ends = Termination(f"{name} in box {start.place.box}", self._let_go, on_gone, log)
        self._watch: asyncio.Task[None] | None = None
        self._watch = asyncio.get_running_loop().create_task(self._follow(), name=f"box-{name}")

    def on_ready(self) -> None:
        """That was known when it was launched."""

    async def end(self, grace: float) -> None:
        """Lets it go; unloads it there if it was loaded for this Stoker and nobody else uses it. Never raises."""
        await self._ends.end(grace)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, without waiting for it."""
        return self._ends.begin_end(grace)

    def release(self) -> None:
        """Stop watching it; it stays loaded there."""
        self._stop_watching()

    def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        self._connection.close()

    async def _follow(self) -> None:
        failures, pause, why = 0, POLL_INTERVAL, ""
        while failures < FAILURES:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._connection.closed() if self._connection.is_open else await asyncio.sleep(pause)
            try:
                there, document = await self._api.serve(self._place, self._connection)
            except BoxSilent as silent:
                failures, pause, why = failures + 1, RETRY_INTERVAL, "stopped answering"
                self._notify(BoxSeen(self._place.box, "unreachable", silent.message))
            except BoxRefused as refused:
                is_passing = refused.code == BUSY
                failures, pause = (failures + 1, RETRY_INTERVAL) if is_passing else (FAILURES, 0.0)
                why = f"cannot be used any more: {refused.message}"
                self._notify(BoxSeen(self._place.box, "refuses", refused.message))
            else:
                failures, pause = 0, POLL_INTERVAL
                self._notify(BoxSeen(self._place.box, "awake", "", document))
                if not there.is_loaded and there.state != "starting":
                    self._is_ours = False
                    self._notify(UnloadedThere(self._name, f"box {self._place.box} has unloaded it by its own rules"))
                elif not self._is_current():
                    self._notify(UnloadedThere(self._name, f"[boxes.{self._place.box}] has changed"))
        self.ended_how = f"in box {self._place.box} {why}"
        self._is_ours = False
        self._watch = None
        self._tell()

    def _tell(self) -> None:
        on_exit, self._on_exit = self._on_exit, None
        if on_exit is not None:
            on_exit(None)

    async def _let_go(self) -> None:
        self._stop_watching()
        if self._is_ours:
            with contextlib.suppress(TimeoutError, StartFailed):
                async with asyncio.timeout(END_WITHIN):
                    if why := await _unload_there(self._api, self._place):
                        self._log.info("serve %s stays loaded in box %s: %s", self._name, self._place.box, why)
        self._tell()


async def _unload_there(api: BoxApi, place: BoxPlace) -> str:
    """Unloads a serve that nobody uses there and nothing keeps loaded. Why not, if that failed. Raises StartFailed."""
    there, _ = await api.serve(place)
    if (not there.is_loaded and there.state != "starting") or there.in_use or there.is_kept:
        return ""
    return await api.unload(place.serve, END_WITHIN)


@dataclass(frozen=True, slots=True)
class _Start:
    """What was launched."""

    api: BoxApi
    place: BoxPlace
    is_ours: bool
    """It was not loaded there before this Stoker asked for it."""


def _place_of(serve: Serve) -> BoxPlace:
    if serve.box_place is None:
        raise StartFailed(f"serve '{serve.name}' is in no box", code="cannot_start")
    return serve.box_place
