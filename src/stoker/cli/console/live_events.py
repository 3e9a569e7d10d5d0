"""The events of the running Stoker, over its restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from stoker.cli.console.control import Control, ServerEvent
from stoker.cli.console.errors import NotRunning, UnreadableAnswer

RETRY_INTERVAL = 0.5
"""Seconds between two tries to connect."""


def live_events(
    control: Control,
    topics: str,
    waits: Callable[[str], None] = lambda why: None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[ServerEvent]:
    """First a `snapshot` of each topic, then what happens; for ever.

    Raises NotRunning and UnreadableAnswer only before the first event, RequestRefused always. If Stoker ends later,
    this waits for the next one, and calls `waits` once with the reason. It goes on after the last event, or with new
    snapshots.
    """
    last_id = ""
    has_begun = is_gone = False
    while True:
        try:
            for event in control.events(topics, last_id):
                has_begun, is_gone = True, False
                last_id = event.id or last_id
                yield event
        except (NotRunning, UnreadableAnswer) as error:
            if not has_begun:
                raise
            if not is_gone:
                waits(error.message)
            is_gone = True
        pause(RETRY_INTERVAL)
