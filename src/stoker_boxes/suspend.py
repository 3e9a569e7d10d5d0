"""Lets this machine sleep: models end in order, the command is run, and they come back when it is awake.

Until the command has ended, the first request calls everything off, and waits only until its model is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from stoker.domain.figures import seconds
from stoker.domain.protocols import Clock
from stoker.domain.serve_phase import ServePhase
from stoker.fleet.process.command_end import end_command
from stoker.fleet.swapping.conductor import Conductor
from stoker.request.lease.state import PauseCause
from stoker_boxes.idle import Activity, IdleState, has_slept, is_due, next_state
from stoker_boxes.table import IdleSuspend

log = logging.getLogger("stoker.boxes")
LOOK_EVERY = 5.0
"""Seconds between two looks whether it is idle."""
WATCH_EVERY = 0.1
ENDS_WITHIN = 180.0
"""Seconds that models may take to end."""
SLEEPS_WITHIN = 60.0
"""Seconds after the command has ended within which the machine has to sleep."""
_MOST_OUTPUT = 2000


class IdleSuspender:
    """`work()`: what else is under way, for people; may block, so it is called in a thread."""

    def __init__(
        self, conductor: Conductor, clock: Clock, work: Callable[[], str], note: Callable[[str, str, str], None],
        run_command: Callable[[IdleSuspend], Awaitable[str]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        """`run_command`: why it failed; empty: it ended with code 0."""
        self._conductor = conductor
        self._clock = clock
        self._work = work
        self._note = note
        self._run_command = run_command or run_bounded
        self._sleep = sleep
        self._settings: IdleSuspend | None = None
        self._state = IdleState(clock.now(), float("-inf"))
        self._changed = asyncio.Event()
        self.phase = "awake"
        """`awake`, `ending` (models end), `command` (it runs), `asleep` (it has ended)."""

    def configure(self, settings: IdleSuspend | None) -> None:
        if settings != self._settings:
            self._settings = settings
            self._state = IdleState(self._clock.now(), self._state.last_use)
            self._changed.set()

    def status(self) -> dict[str, object] | None:
        """None: it is not configured."""
        if self._settings is None:
            return None
        idle = self._clock.now() - self._state.since
        return {
            "phase": self.phase,
            "idle": round(idle, 1),
            "after": self._settings.after,
            "waits_for_request": self._state.was_tried,
        }

    async def run(self) -> None:
        """For ever; its owner cancels it."""
        while True:
            if self._settings is None:
                self._changed.clear()
                await self._changed.wait()
            try:
                await self.look_once()
            except Exception:  # the next look is to come nevertheless
                log.exception("idle_suspend failed inside Stoker")
            await self._sleep(LOOK_EVERY)

    async def look_once(self) -> None:
        """Looks, and suspends if it is time."""
        settings = self._settings
        if settings is None or settings.command is None:
            return
        seen = self._activity(await asyncio.to_thread(self._work))
        now = self._clock.now()
        self._state = next_state(self._state, seen, now)
        if is_due(self._state, settings.after, now) and not seen.requests and not seen.work:
            self._state = self._state._replace(was_tried=True)
            await self._suspend(settings)

    def _activity(self, work: str) -> Activity:
        conductor = self._conductor
        counts = conductor.statistics()
        if not work:
            work = next((f"slot {name} is paused: {why}" for name, why in self._pauses().items()), "")
        if not work and counts["swaps"]:
            work = "a model is loaded or stopped"
        if not work and conductor.downloads:
            work = "weights are downloaded"
        return Activity(conductor.quiet_since, counts["waiting"] + counts["leases"], work)

    def _pauses(self) -> dict[str, str]:
        """Why slots of this machine are paused, apart from its sleep: somebody else uses their devices."""
        slots = self._conductor.scheduler.slots
        return {
            name: why
            for name, one in slots.items()
            if one.slot.is_here
            for cause, why in one.pauses.items()
            if cause is not PauseCause.SUSPEND
        }

    def _is_wanted(self) -> bool:
        seen = self._activity("")
        return seen.requests > 0 or seen.last_use > self._state.last_use

    async def _objection(self, settings: IdleSuspend) -> str:
        """Why the machine must stay awake, although it was to sleep; empty: nothing has changed. Once models have
        ended: until then their end is a swap.
        """
        work = await asyncio.to_thread(self._work)
        if self._is_wanted():
            return "a request came"
        if self._settings != settings:
            return "[idle_suspend] was changed"
        return self._activity(work).work

    async def _suspend(self, settings: IdleSuspend) -> None:
        scheduler = self._conductor.scheduler
        slots = [name for name, one in scheduler.slots.items() if one.slot.is_here]
        self._note("suspending", "", f"nothing was asked for {seconds(settings.after)}: models end, the machine sleeps")
        self.phase = "ending"
        for name in slots:
            self._conductor.pause(name, PauseCause.SUSPEND, "the machine is going to sleep")
        said = "the machine stays awake"
        try:
            if not await self._have_ended(slots) and not self._is_wanted():
                self._note("suspend_cancelled", "", f"a model did not end within {seconds(ENDS_WITHIN)}")
                return
            if objection := await self._objection(settings):
                self._called_off(f"the machine stays awake: {objection}")
                return
            before = self._clock.wall() - self._clock.now()
            self.phase = "command"
            problem, objection = await self._command(settings)
            if objection:
                self._called_off(f"the command was called off: {objection}")
                return
            if problem:
                log.warning("idle_suspend: %s", problem)
                self._note("suspend_failed", "", f"{problem}; it is tried again after the next request")
                return
            self.phase = "asleep"
            if await self._was_asleep(before):
                said = "the machine is awake again"
                self._state = self._state._replace(was_tried=False)
                self._note("awake", "", "the machine has slept, and is awake again")
            elif not self._is_wanted():
                text = f"the command ended, and the machine did not sleep within {seconds(SLEEPS_WITHIN)}"
                self._note("suspend_failed", "", f"{text}; it is tried again after the next request")
        except asyncio.CancelledError:
            slots = []  # Stoker ends, and loads nothing any more
            raise
        finally:
            self.phase = "awake"
            for name in slots:
                if name in scheduler.slots:
                    self._conductor.resume(name, PauseCause.SUSPEND, said)
            self._state = self._state._replace(since=self._clock.now())

    def _called_off(self, text: str) -> None:
        self._state = self._state._replace(was_tried=False)
        self._note("suspend_cancelled", "", text)

    async def _have_ended(self, slots: list[str]) -> bool:
        until = self._clock.now() + ENDS_WITHIN
        while self._clock.now() < until and not self._is_wanted():
            states = [
                self._conductor.scheduler.slots[name] for name in slots if name in self._conductor.scheduler.slots
            ]
            is_quiet = not any(one.swaps for one in states)
            serves = (state for one in states for state in one.serves if not state.is_elsewhere)
            if is_quiet and all(state.phase is ServePhase.STOPPED for state in serves):
                return True
            await self._sleep(WATCH_EVERY)
        return False

    async def _command(self, settings: IdleSuspend) -> tuple[str, str]:
        """Why it failed; and why it was called off, and ended: see `_objection`. Empty: it was not."""
        running = asyncio.get_running_loop().create_task(_text(self._run_command(settings)), name="idle-suspend")
        try:
            while not running.done():
                if objection := await self._objection(settings):
                    return "", objection
                await asyncio.wait([running], timeout=WATCH_EVERY)
            return running.result(), ""
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _was_asleep(self, before: float) -> bool:
        until = self._clock.now() + SLEEPS_WITHIN
        while not has_slept(before, self._clock.wall() - self._clock.now()):
            if self._is_wanted() or self._clock.now() >= until:
                return False
            await self._sleep(WATCH_EVERY)
        return True


async def _text(running: Awaitable[str]) -> str:
    return await running


async def run_bounded(settings: IdleSuspend) -> str:
    """Runs the command in a process group of its own, for `timeout` at most. Why it failed; empty: it did not.

    On cancel it is ended, with all that it has started.
    """
    command = settings.command or ()
    shown = f"`{' '.join(command)[:200]}`"
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"{shown} cannot be run ({error.strerror or error})"
    assert process.stdout is not None
    output, code = b"", None
    try:
        async with asyncio.timeout(settings.timeout):
            while piece := await process.stdout.read(_MOST_OUTPUT):
                output = (output + piece)[:_MOST_OUTPUT]
            code = await process.wait()
    except TimeoutError:
        pass
    finally:
        could_end = await end_command(process, process.stdout)
        if not could_end:
            log.warning("%s could not be ended: it runs as another user", shown)
    if code is None:
        how = "was ended" if could_end else "could not be ended: it runs as another user"
        return f"{shown} did not end within {seconds(settings.timeout)}, and {how}"
    last = " ".join(output.decode("utf-8", "replace").split())[-300:]
    return f"{shown} ended with code {code}{': ' + last if last else ''}" if code else ""
