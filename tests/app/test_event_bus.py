"""Events reach whoever subscribed, at once."""

from __future__ import annotations

from stoker.app.event_bus import EventBus
from stoker.domain.events import Event, OperatorActed, PredictionsChanged


def test_subscribers_are_called_in_order_with_events_from_then_on() -> None:
    bus = EventBus()
    first: list[Event] = []
    both: list[str] = []
    bus.publish(PredictionsChanged())
    bus.subscribe(first.append)
    bus.subscribe(lambda event: both.append(f"second after {len(first)}"))
    bus.publish(OperatorActed("a"))
    assert (first, both) == ([OperatorActed("a")], ["second after 1"])
