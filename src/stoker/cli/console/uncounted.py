"""Serves whose use nobody counts, although keys have limits on it: `config check` and `doctor` name them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stoker.domain.access import Settings
    from stoker.domain.decision import Decision
    from stoker.domain.key import Key
    from stoker.domain.serve import Serve

_LOOKED_AT = 1000
"""Decisions."""
_OFTEN = 5
"""One complete answer in so many without usage: fewer may come from clients that hang up right before it."""


def uncounted_warnings(settings: Settings) -> list[str]:
    """One sentence for each serve that reports no usage, by its configuration or its last answers, and that keys with
    limits on tokens or money may use.
    """
    from stoker.domain.errors import StokerError
    from stoker.store.decisions import read_recent

    names = {serve.name: limited for serve in settings.serves if (limited := _limited(settings, serve))}
    if not names:
        return []
    try:
        decisions = read_recent(Path(settings.paths.state) / "decisions.db", _LOOKED_AT)
    except StokerError:
        decisions = []
    found = []
    for serve in settings.serves:
        reason = _reason(serve, decisions) if serve.name in names else ""
        if reason:
            found.append(
                f"serve '{serve.name}' {reason}: the limits of {names[serve.name]} count estimates there; have its "
                "engine report usage"
            )
    return found


def _reason(serve: Serve, decisions: Iterable[Decision]) -> str:
    """Why nothing counts; empty: something does, or nobody knows."""
    if "stream_options" in serve.request.drop:
        return "is not asked for usage in streams, because `request.drop` has stream_options"
    answers = [one for one in decisions if one.serve == serve.name and one.outcome == "served" and one.input_tokens]
    silent = sum(one.tokens_estimated for one in answers)
    if not silent or silent * _OFTEN < len(answers):
        return ""
    return f"reported no usage in {silent} of its last {figures.counted(len(answers), 'answer')}"


def _limited(settings: Settings, serve: Serve) -> str:
    """The keys that may use the serve, and have a limit on tokens or money themselves or by their application."""
    limited_apps = {app.name for app in settings.apps if app.limits().counts_use()}
    keys = [
        key.name
        for key in settings.front_door.keys
        if (key.limits.counts_use() or key.app in limited_apps) and _may_use(key, serve)
    ]
    return _quoted(keys)


def _may_use(key: Key, serve: Serve) -> bool:
    from stoker.access.caller import Caller

    return Caller(key).may_use(serve)


def _quoted(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(f"'{name}'" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'key' if len(names) == 1 else 'keys'} {shown}{more}"
