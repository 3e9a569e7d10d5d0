"""Rules about ports, slots and their memory."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.local_address import is_loopback
from stoker.config.rules.boxes import check_box_place, check_kept_in_boxes, check_one_place_in_a_box
from stoker.config.tables.file import File
from stoker.domain import kinds
from stoker.domain.serve import Slot, box_of, slots_of
from stoker.domain.units import show_size


def check_slots(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """Ports used twice, slots that do not exist, budgets that are too small, baselines of other slots."""
    real = [entry for entry in entries if not entry.table.abstract and not entry.is_external]
    _check_ports(doc, file, real)
    for entry in real:
        if entry.table.slot is not None:
            _check_place(doc, file, entry, entry.table.slot, "slot")
        if entry.table.slots:
            _check_places(doc, file, entry)
        elif entry.table.replicas > 1:
            doc.problem(entry.at("replicas"), 'needs several slots to be in: `slots = ["gpu0", "gpu1"]`')
        _check_kept(doc, entry)
    members_of: dict[str, list[ServeEntry]] = {}
    for entry in real:
        for slot_name in _slots_of(entry):
            members_of.setdefault(slot_name, []).append(entry)
    for name, slot in file.slots.items():
        members = members_of.get(name, [])
        _check_slot_name(doc, name)
        _check_baseline(doc, name, slot, members)
        _check_idle_serve(doc, name, slot, entries, members)
        _check_together(doc, name, slot, members)
        if slot.memory is not None:
            _check_budget(doc, name, slot.memory, members)
        elif not doc.is_spoiled(("slots", name, "memory")) and not slot.together:
            _check_single(doc, name, members)


def _check_ports(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """A port is one serve's, or that of serves which never run at the same time."""
    takers: dict[int, list[ServeEntry]] = defaultdict(list)
    for entry in entries:
        port = entry.table.port
        if port is None:
            continue
        path = entry.at("port")
        other = next(
            (
                one
                for one in takers[port]
                if _share_an_address(one.table.host, entry.table.host) and not _exclude_each_other(file, one, entry)
            ),
            None,
        )
        owner = ""
        is_here = _share_an_address(file.front_door.host, entry.table.host)
        if is_here and port == file.front_door.port and not doc.is_spoiled(("front_door", "port")):
            line = f" (line {doc.line(('front_door', 'port'))})" if doc.holds(("front_door", "port")) else ""
            owner = f"the front door{line}"
        elif other is not None:
            owner = f"serve '{other.name}' (line {doc.line(other.at('port'))})"
        if owner:
            doc.problem(path, f"serve '{entry.name}' needs port {port}, which {owner} has; choose another")
        takers[port].append(entry)


_EVERY = ("0.0.0.0", "::", "")


def _share_an_address(one: str, other: str) -> bool:
    """Whether two programs that listen on these hosts may meet."""
    return one == other or one in _EVERY or other in _EVERY or (is_loopback(one) and is_loopback(other))


def _exclude_each_other(file: File, one: ServeEntry, other: ServeEntry) -> bool:
    """Whether the two take turns in one slot, and neither keeps its process while it sleeps."""
    slot = file.slots.get(one.table.slot or "")
    if slot is None or one.table.slot != other.table.slot or slot.memory is not None:
        return False
    if one.table.sleep_level is not None or other.table.sleep_level is not None:
        return False
    return not any({one.name, other.name} <= set(names) for names in slot.together)


def _places_of(entry: ServeEntry) -> list[str]:
    return [place for place in (entry.table.slot, *entry.table.slots) if place is not None]


def _slots_of(entry: ServeEntry) -> set[str]:
    """Every slot that the serve may take."""
    return {slot for place in _places_of(entry) for slot in slots_of(place)}


def _check_place(doc: ConfigDocument, file: File, entry: ServeEntry, place: str, key: str) -> None:
    """Each slot of a place exists, and is named once. `gpu0+gpu1` takes both."""
    names = slots_of(place)
    if any(map(box_of, names)):
        check_box_place(doc, file, entry, place, key)
        return
    for slot in dict.fromkeys(names):
        if slot not in file.slots and not doc.is_spoiled(("slots", slot)):
            hint = doc.did_you_mean(slot, file.slots) or (
                f"; add a section [slots.{slot}]" if slot else ": remove the '+'"
            )
            doc.problem(entry.at(key), f"there is no slot '{slot}'{hint}")
    if len(set(names)) < len(names):
        doc.problem(entry.at(key), f"'{place}' names a slot twice; name each slot of a place once")


def _check_places(doc: ConfigDocument, file: File, entry: ServeEntry) -> None:
    """1 each slot exists  2 no place twice  3 not more replicas than places  4 what belongs to one place only is left
    out
    """
    table, path = entry.table, entry.at("slots")
    for place in dict.fromkeys(table.slots):
        _check_place(doc, file, entry, place, "slots")  # 1
    if len({frozenset(slots_of(place)) for place in table.slots}) < len(table.slots):
        doc.problem(path, "names a slot twice; each replica has a slot of its own")  # 2
    if table.replicas > len(table.slots):
        count = len(table.slots)
        text = f"is {table.replicas}, but `slots` has {count}; add slots, or lower it"
        doc.problem(entry.at("replicas"), text)  # 3
    check_kept_in_boxes(doc, entry)
    check_one_place_in_a_box(doc, entry)
    if not entry.has_several_places:
        return
    if entry.driver != "process":
        text = "a container or a unit is one process; give one `slot`, or a serve for each and an alias for all"
        doc.problem(path, text)
        return
    for key, reason in _ONE_PLACE.items():  # 4
        if getattr(table, key) and doc.holds(entry.at(key)) and (key != "context" or table.auto_context):
            doc.problem(entry.at(key), f"cannot be used with several `slots`: {reason}")


def _check_kept(doc: ConfigDocument, entry: ServeEntry) -> None:
    """A `min` keeps replicas loaded wherever there is room; `keep_loaded` holds the first places for them."""
    table, path = entry.table, entry.at("replicas")
    if table.min_replicas and len(table.slots) < 2:
        doc.problem(path, "has a `min`, which needs several `slots`; with one, write `keep_loaded = true`")
    elif table.min_replicas and table.keep_loaded:
        text = "has a `min`, and the serve has `keep_loaded`, which holds its first slots for it; remove one of the two"
        doc.problem(path, text)


_ONE_PLACE = {
    "slot": "remove it",
    "port": "each replica gets a free one; remove it",
    "context": "give a number that fits the smallest of them",
    "keep_conversations": "a replica cannot restore what another one saved; remove it: a conversation stays with "
    "the replica that has it in its prefix cache; or give one `slot`",
    "stop": "the command could stop another replica; remove it, or give one `slot`",
}
"""Keys that mean one process, and what to do instead."""


def _check_slot_name(doc: ConfigDocument, name: str) -> None:
    try:
        kinds.name(name)
    except ValueError as error:
        doc.problem(("slots", name), str(error))


def _check_baseline(doc: ConfigDocument, name: str, slot: Slot, members: list[ServeEntry]) -> None:
    names = [entry.name for entry in members]
    if slot.baseline in names:
        _check_takes_one_slot(doc, (name, "baseline"), next(entry for entry in members if entry.name == slot.baseline))
    elif slot.baseline is not None:
        hint = doc.did_you_mean(slot.baseline, names) or f'; set slot = "{name}" for it, or name another serve'
        doc.problem(("slots", name, "baseline"), f"there is no serve '{slot.baseline}' in slot '{name}'{hint}")


def _check_idle_serve(
    doc: ConfigDocument, name: str, slot: Slot, entries: list[ServeEntry], members: list[ServeEntry]
) -> None:
    if slot.idle_serve is None:
        return
    found = next((entry for entry in members if entry.name == slot.idle_serve), None)
    if found is None:
        hint = _hint_for_idle_serve(doc, slot.idle_serve, name, entries, members)
        doc.problem(("slots", name, "idle_serve"), f"there is no serve '{slot.idle_serve}' in slot '{name}'{hint}")
    else:
        _check_takes_one_slot(doc, (name, "idle_serve"), found)
    if found is not None and found.table.idle_unload is not None:  # it would come and go
        doc.problem(
            found.at("idle_unload"),
            f"'{found.name}' is the `idle_serve` of slot '{name}', and an idle slot keeps that one; remove one",
        )


def _check_takes_one_slot(doc: ConfigDocument, where: tuple[str, str], entry: ServeEntry) -> None:
    slot, key = where
    place = next((place for place in _places_of(entry) if slot in slots_of(place) and place != slot), None)
    if place is not None:
        text = f"'{entry.name}' takes several slots, '{place}'; name a serve that takes slot '{slot}' alone"
        doc.problem(("slots", slot, key), text)


def _hint_for_idle_serve(
    doc: ConfigDocument, name: str, slot: str, entries: list[ServeEntry], members: list[ServeEntry]
) -> str:
    """1 it is a serve that Stoker cannot start  2 it is in another slot  3 it is an alias  4 it is misspelt"""
    entry = next((entry for entry in entries if entry.name == name), None)
    if entry is not None and entry.table.abstract:
        return f": '{name}' is abstract and never runs; name a serve of slot '{slot}'"  # 1
    if entry is not None and entry.is_external:
        return f": '{name}' is external, and Stoker does not start it; name a serve of slot '{slot}'"  # 1
    if entry is not None and entry.table.slot is not None:
        return f": it is in slot '{entry.table.slot}'; name a serve of slot '{slot}'"  # 2
    own = next((member.name for member in members if name in member.table.aliases), None)
    if own is not None:
        return f": it is an alias; write '{own}'"  # 3
    hint = doc.did_you_mean(name, [member.name for member in members])
    return hint or f'; set slot = "{slot}" for it, or name another serve'  # 4


def _check_together(doc: ConfigDocument, name: str, slot: Slot, members: list[ServeEntry]) -> None:
    """Each set has at least two serves, all of this slot; those with `keep_loaded` must be in one set."""
    names = [entry.name for entry in members]
    for number, group in enumerate(doc.raw["slots"][name].get("together", ())):  # as written: a set has nothing twice
        path = ("slots", name, "together", number)
        for serve in dict.fromkeys(group):
            if serve not in names and not doc.is_spoiled(("serve",)):
                hint = doc.did_you_mean(serve, names) or f'; set slot = "{name}" for it, or remove it from the set'
                doc.problem(path, f"there is no serve '{serve}' in slot '{name}'{hint}")
        if len(set(group)) < len(group):
            twice = next(serve for serve in group if group.count(serve) > 1)
            doc.problem(path, f"serve '{twice}' is in this set twice; name each serve once")
        elif len(group) < 2:
            doc.problem(path, "a set needs at least two serves; a serve alone is always allowed: remove this set")
    pinned = [entry for entry in members if entry.table.keep_loaded]
    kept = {entry.name for entry in pinned}
    if slot.together and len(pinned) > 1 and not any(kept.issubset(group) for group in slot.together):
        doc.problem(
            pinned[-1].at("keep_loaded"),
            f"{_all(pinned)} have `keep_loaded` in slot '{name}', and no set of `together` has them all; add one, or "
            "remove a `keep_loaded`",
        )


def _check_budget(doc: ConfigDocument, name: str, budget: int, members: list[ServeEntry]) -> None:
    """Each serve needs `memory`, and those with `keep_loaded` must fit together."""
    for entry in members:
        memory = entry.table.memory
        if memory is None:
            if entry.lacks(doc, "memory"):
                doc.problem(
                    entry.at("slot"),
                    f"slot '{name}' has a memory budget, so serve '{entry.name}' needs `memory`",
                )
        elif (part := _part(entry, name)) > budget:
            of = f" of its {show_size(memory)}" if part < memory else ""
            doc.problem(
                entry.at("memory"),
                f"serve '{entry.name}' needs {show_size(part)}{of} and slot '{name}' has {show_size(budget)}",
            )
    pinned = [entry for entry in members if entry.table.keep_loaded]
    total = sum(_part(entry, name) for entry in pinned)
    if len(pinned) > 1 and total > budget:
        doc.problem(
            pinned[-1].at("keep_loaded"),
            f"{_all(pinned)} have `keep_loaded` and need {show_size(total)} together in slot '{name}'; "
            f"it has {show_size(budget)}",
        )


def _part(entry: ServeEntry, slot: str) -> int:
    """The most of its memory that it takes in this slot: those of one place have equal parts of it."""
    memory = entry.table.memory or 0
    counts = [len(slots_of(place)) for place in _places_of(entry) if slot in slots_of(place)]
    return -(-memory // min(counts))


def _check_single(doc: ConfigDocument, name: str, members: list[ServeEntry]) -> None:
    """One serve at a time: two cannot have `keep_loaded`."""
    pinned = [entry for entry in members if entry.table.keep_loaded]
    for first, second in list(combinations(pinned, 2))[:1]:
        doc.problem(
            second.at("keep_loaded"),
            f"{_all([first, second])} have `keep_loaded` in slot '{name}', which has no `memory` and so holds one "
            "serve at a time",
        )


def _all(entries: list[ServeEntry]) -> str:
    return "serves " + " and ".join(f"'{entry.name}'" for entry in entries)
