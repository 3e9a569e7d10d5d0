"""Events reach whoever subscribed, at once."""

from __future__ import annotations

from stoker.app.event_bus import EventBus
from stoker.domain.events import Event, FleetBecameBusy, FleetBecameIdle


def test_subscribers_are_called_in_order_with_events_from_then_on() -> None:
    bus = EventBus()
    first: list[Event] = []
    both: list[str] = []
    bus.publish(FleetBecameBusy())
    bus.subscribe(first.append)
    bus.subscribe(lambda event: both.append(f"second after {len(first)}"))
    bus.publish(FleetBecameIdle())
    assert (first, both) == ([FleetBecameIdle()], ["second after 1"])
