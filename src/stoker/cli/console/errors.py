"""Errors of the command line itself. Exit codes: 0 done, 1 refused or failed, 2 usage, 130 interrupted."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import ClientError, ConfigError, StokerError
from stoker.domain.nearest import nearest

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class UsageError(ClientError):
    """The command as typed cannot be carried out: change the command, not the machine."""

    code = "usage"


class NotRunning(StokerError):
    """No `stoker up` listens where this command looked for one."""

    status = 503
    code = "not_running"


class RequestRefused(StokerError):
    """The running Stoker refused the request; the message is Stoker's."""

    status = 409
    code = "refused"


class Interrupted(StokerError):
    """Ctrl-C or SIGTERM ended a measurement. The message says what is kept, and the command that goes on."""

    status = 503
    code = "interrupted"


class UnreadableAnswer(StokerError):
    """The running Stoker answered with something that this version does not understand, or not at all."""

    status = 502
    code = "unreadable_answer"


def exit_code(error: StokerError) -> int:
    """2 for a command or configuration that has to change, 130 for one that was interrupted, else 1."""
    if isinstance(error, Interrupted):
        return INTERRUPTED
    return USAGE if isinstance(error, UsageError | ConfigError) else FAILED


def unknown_serve(name: str, known: Iterable[str], where: str) -> UsageError:
    """An error that names the nearest known serve, or all of them where none is near."""
    names = sorted(known)
    if not names:
        return UsageError(f"there is no serve '{name}': {where} has no serves", code="unknown_serve")
    near = nearest(name, names, cutoff=0.5)
    hint = f"did you mean '{near}'?" if near else f"known serves: {', '.join(names)}"
    return UsageError(f"there is no serve '{name}' in {where}; {hint}", code="unknown_serve")
