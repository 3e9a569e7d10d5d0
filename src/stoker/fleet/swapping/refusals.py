"""The errors for serves that may not be started, or cannot."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.errors import CANNOT_LOAD, ClientError, StartFailed
from stoker.domain.serve import Serve


def needs_force(serve: Serve) -> ClientError:
    reason = f" ({serve.reason})" if serve.reason else ""
    command = f"stoker slot switch {serve.name} --force"
    text = f"serve '{serve.name}' is {serve.status.value}{reason}: `{command}` starts it nevertheless"
    return ClientError(text, code="needs_force", status=403, param="model")


def cannot_start(serve: Serve, problems: list[str]) -> StartFailed:
    text = "; ".join(without_name(serve, problem) for problem in problems)
    return StartFailed(f"serve '{serve.name}' cannot start: {text}", code="cannot_start", retry_after=30.0, remedy=text)


def lasting_problems(serve: Serve, problems: Sequence[str]) -> StartFailed:
    """A check found lasting problems."""
    text = "; ".join(without_name(serve, problem) for problem in problems)
    return StartFailed(f"serve '{serve.name}' cannot load: {text}", code=CANNOT_LOAD, remedy=text)


def without_name(serve: Serve, problem: str) -> str:
    """The problem as the rest of a sentence that names the serve."""
    of_serve = f" of serve '{serve.name}'"
    return (
        problem.removeprefix(f"serve '{serve.name}': ")
        .removeprefix(f"the weights{of_serve}: ")
        .replace(of_serve, "", 1)
    )
