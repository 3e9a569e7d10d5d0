"""Carries events from the parts to whoever subscribed: parts are built first, so they cannot know them."""

from __future__ import annotations

from stoker.domain.events import Event, Notify


class EventBus:
    """Calls each subscriber at once, in the order of subscription. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._subscribers: tuple[Notify, ...] = ()

    def subscribe(self, subscriber: Notify) -> None:
        """Called with each event from now on. It must return at once, and raise nothing."""
        self._subscribers = (*self._subscribers, subscriber)

    def publish(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)
