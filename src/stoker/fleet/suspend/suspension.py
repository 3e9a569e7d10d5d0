"""Asks the CUDA driver to suspend the processes of a serve, or to resume them, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stoker.fleet.suspend import cuda_driver
from stoker.fleet.suspend.cuda_driver import CHECKPOINTED, RUNNING, Outcome

COMMAND = (sys.executable, "-I", "-S", cuda_driver.__file__)
ENDS_WITHIN = 2.0
"""Seconds: a program that a driver holds ends when the driver lets go."""
log = logging.getLogger("stoker.fleet")
_unended: set[asyncio.Task[int]] = set()
_SHOWN = 300


class Refusal(NamedTuple):
    """What the driver said, and what that means."""

    function: str
    """The beginning of the function's name; empty: any."""
    codes: tuple[int | None, ...]
    """Empty: any."""
    text: str


REFUSALS = (
    Refusal("", (800, 304), "the driver does not permit it: run Stoker as the user that runs the engine, or as root; "
            "in a container, start it with `--cap-add SYS_PTRACE`"),
    Refusal("", (801,), "the driver cannot suspend this engine: it uses managed memory (unset "
            "GGML_CUDA_ENABLE_UNIFIED_MEMORY), shares memory between its processes (driver 610 or newer can), or its "
            "GPU is too old"),
    Refusal("cuCheckpointProcessLock", (None,), "the driver cannot suspend processes: install driver 570 or newer; "
            "`nvidia-smi` shows which one is installed"),
    Refusal("cuCheckpointProcessLock", (600,), "its work on the GPU did not come to an end within "
            f"{cuda_driver.LOCK_WITHIN_MS // 1000} s"),
    Refusal("cuCheckpointProcessLock", (401,), "another program has suspended it: let only one of them do that"),
    Refusal("cuCheckpointProcessRestore", (2,), "the GPU has too little free memory for it: `nvidia-smi` shows who "
            "holds it"),
    Refusal("cuCheckpointProcess", (), "the driver failed: `dmesg` may say why"),
    Refusal("", (), f"this machine has no {cuda_driver.LIBRARY}: `sleep_level = 3` needs an NVIDIA GPU with driver 570 "
            "or newer"),
)  # fmt: skip
"""The first row that matches counts."""


class SuspendFailed(Exception):
    """It was not suspended, or not resumed. The text says why, with the next step. `runs_on`: nothing has changed."""

    def __init__(self, text: str, runs_on: bool = True) -> None:
        super().__init__(text)
        self.runs_on = runs_on


async def suspend(pids: Sequence[int]) -> None:
    """The device memory of these processes is in main memory now, and they do not run on. Raises SuspendFailed; then,
    and on cancel, they may be unusable and have to be ended.
    """
    await _carry_out("suspend", pids, CHECKPOINTED)


async def resume(pids: Sequence[int]) -> None:
    """They run again, with their device memory as it was. Raises as `suspend`."""
    await _carry_out("resume", pids, RUNNING)


async def is_suspended(pids: Sequence[int]) -> bool:
    """Whether all of these processes that use CUDA are suspended, and one at least does. Raises nothing."""
    try:
        await _carry_out("state", pids, CHECKPOINTED)
    except SuspendFailed:
        return False
    return True


def unavailable_reason(library: str = cuda_driver.LIBRARY) -> str:
    """Why this machine's driver suspends nothing, with the next step; empty: it may. Loads the library."""
    outcome = cuda_driver.carry_out("state", (), library)
    return problem(outcome, RUNNING) if outcome.problem else ""


def problem(outcome: Outcome, wanted: str) -> str:
    """Why it did not succeed, with the next step; empty: it did. Pure."""
    if outcome.problem:
        row = next(
            one for one in REFUSALS
            if outcome.function.startswith(one.function) and (not one.codes or outcome.code in one.codes)
        )  # fmt: skip
        return f"{row.text} ({outcome.problem})"
    if not outcome.states:
        return "none of its processes uses CUDA: remove `sleep_level`, or see in its log why it does not use the GPU"
    others = {pid: state for pid, state in outcome.states.items() if state != wanted}
    return "; ".join(f"process {pid} is {state}, not {wanted}" for pid, state in others.items())


def runs_on(outcome: Outcome) -> bool:
    """Whether a suspend that failed changed nothing: nothing was asked of the driver but states and locks."""
    has_begun = outcome.function in ("cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore")
    return not has_begun and all(state == RUNNING for state in outcome.states.values())


async def _carry_out(verb: str, pids: Sequence[int], wanted: str) -> None:
    """On cancel the helper has ended before CancelledError leaves, or could not be ended within ENDS_WITHIN."""
    spawning = asyncio.get_running_loop().create_task(_spawn(verb, pids))
    try:
        helper = await asyncio.shield(spawning)
        said, errors = await helper.communicate()
    except asyncio.CancelledError:
        await _kill(spawning)
        raise
    except OSError as error:
        raise SuspendFailed(f"the program that asks the CUDA driver cannot be started ({error})") from error
    try:
        outcome = msgspec.json.decode(said, type=Outcome)
    except msgspec.DecodeError:
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"exit code {helper.returncode}"
        raise SuspendFailed(f"the CUDA driver ended the program that asked it ({last[:_SHOWN]})", False) from None
    if why := problem(outcome, wanted):
        raise SuspendFailed(why, runs_on(outcome))


async def _spawn(verb: str, pids: Sequence[int]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND, verb, *map(str, pids),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
        start_new_session=True,  # Ctrl-C is meant for Stoker
        cwd=os.sep,
    )  # fmt: skip


async def _kill(spawning: asyncio.Task[asyncio.subprocess.Process]) -> None:
    await asyncio.wait([spawning])
    if spawning.cancelled() or spawning.exception() is not None:
        return
    helper = spawning.result()
    with contextlib.suppress(ProcessLookupError):
        helper.kill()
    reaping = asyncio.get_running_loop().create_task(helper.wait())
    if not (await asyncio.wait([reaping], timeout=ENDS_WITHIN))[0]:
        _unended.add(reaping)
        reaping.add_done_callback(_unended.discard)
        log.warning(
            "the CUDA driver does not answer and holds the program that asks it (process %d): see `nvidia-smi`",
            helper.pid,
        )
