"""What the status of another Stoker says about a slot of it, and about the serve that this one wants there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker.domain.serve import BoxPlace

LOADED = ("ready", "held", "draining")


class ServeThere(NamedTuple):
    """The serve, as that Stoker shows it: all its places there together."""

    is_loaded: bool
    state: str
    """What its places do, for people: `ready`, `starting`, `paused`."""
    in_use: int
    """Requests that it answers, or that wait for it, whoever sent them."""
    is_kept: bool
    """That Stoker keeps it loaded by its own configuration."""
    reason: str
    """Why it cannot be loaded, as far as that Stoker says; empty: nothing is known against it."""


class Unfit(NamedTuple):
    """Why nothing can be loaded there."""

    code: str
    """`box_too_old`, `box_no_stoker`, `box_unknown_slot`, `box_unknown_serve`, `box_circle`."""
    message: str
    """A sentence without its subject, the box, and with what to do."""


def serve_there(document: Any, place: BoxPlace) -> ServeThere | Unfit:
    """What a status document says.

    1. it is no Stoker's                             4. it has no such serve
    2. its Stoker does not know of boxes             5. its serve is itself in a slot of a box: a circle
    3. it has no such slot                           6. its serve is in another slot
    """
    serves, slots = _entries(document, "serves"), _entries(document, "slots")
    version = document.get("version") if isinstance(document, Mapping) else None
    if not isinstance(version, str) or serves is None or slots is None:
        return Unfit("box_no_stoker", "answers, but not as a Stoker does: correct `url`")  # 1
    if any("box" not in slot for slot in slots):
        text = f"runs Stoker {version[:20]}, which is too old to lend its slots: upgrade it"
        return Unfit("box_too_old", text)  # 2
    own = [str(slot.get("name"))[:64] for slot in slots if not slot["box"]]
    if place.slot not in own:
        known = f"it has {', '.join(own[:8])}" if own else "it has none"
        return Unfit("box_unknown_slot", f"has no slot '{place.slot}' ({known}): correct `slot`, or add it there")  # 3
    found = [one for one in serves if place.serve in (one.get("name"), one.get("replica_of"))]
    if not found:
        text = (
            f"has no serve '{place.serve}': add one of this name to its configuration, in slot '{place.slot}'; or give "
            "its name there as `served_name`"
        )
        return Unfit("box_unknown_serve", text)  # 4
    here = [one for one in found if ":" not in str(one.get("slot") or "")]
    if not here:
        text = (
            f"has its serve '{place.serve}' in a slot of a box itself ({found[0].get('slot')}): one of the two has to "
            "run it, so give it a slot there that is its own"
        )
        return Unfit("box_circle", text)  # 5
    if not any(place.slot in str(one.get("slot") or "").split("+") for one in here):
        where = ", ".join(sorted({f"'{one.get('slot')}'" for one in here}))
        text = f"has its serve '{place.serve}' in slot {where}, not in '{place.slot}': correct `slot`"
        return Unfit("box_unknown_slot", text)  # 6
    idle = {str(slot.get("idle_serve")) for slot in slots if slot.get("idle_serve")}
    return _summed(here, any(str(one.get("name")) in idle for one in here))


def _summed(here: Sequence[Mapping[str, Any]], is_idle_serve: bool) -> ServeThere:
    states = [str(one.get("state")) for one in here]
    loaded = [state for state in states if state in LOADED]
    reasons = (one.get("cannot_load") or one.get("paused") or one.get("parked") for one in here)
    return ServeThere(
        bool(loaded),
        loaded[0] if loaded else "starting" if "starting" in states else states[0],
        sum(_count(one.get("in_flight")) + _count(one.get("queued")) for one in here),
        is_idle_serve or any(bool(one.get("keep_loaded") or one.get("min_replicas")) for one in here),
        "" if loaded else next((str(reason)[:300] for reason in reasons if reason), ""),
    )


def residents(document: Any, slot: str) -> list[str]:
    """What is loaded in a slot there, whoever wanted it."""
    slots = _entries(document, "slots") or []
    found = next((one.get("resident") for one in slots if one.get("name") == slot), None)
    return [str(name)[:64] for name in found[:50]] if isinstance(found, list) else []


def refusal(body: Any, status: int) -> tuple[str, str]:
    """Code and message of an error that it answered with."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, Mapping):
        return str(error.get("code") or "")[:64], str(error.get("message") or "")[:400]
    return "", str(error)[:400] if error else f"it answered {status}"


def _entries(document: Any, key: str) -> list[Mapping[str, Any]] | None:
    found = document.get(key) if isinstance(document, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
