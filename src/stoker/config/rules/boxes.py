"""Rules about slots of other Stokers: `slot = "box2:gpu0"`.

1. its box exists, and it is taken alone   2. what a serve needs only where it is started is left out
3. nothing is kept loaded there            4. a serve has one place in a box: its Stoker chooses among several itself
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.sections import table_names
from stoker.config.tables.file import File
from stoker.domain.serve import box_of, slots_of

BOXES = "boxes"


def check_box_place(doc: ConfigDocument, file: File, entry: ServeEntry, place: str, key: str) -> None:
    """Of a place with a slot of a box."""
    names = slots_of(place)
    if len(names) > 1:  # 1
        text = (
            f"'{place}': a slot of a box cannot be joined with another one; name each as a place of its own in `slots`"
        )
        doc.problem(entry.at(key), text)
    boxes = table_names(file, BOXES)
    for slot in names:
        box = box_of(slot)
        if box and box not in boxes and not doc.is_spoiled((BOXES,)) and not doc.is_spoiled((BOXES, box)):
            hint = doc.did_you_mean(box, boxes) or f"; add a section [boxes.{box}] with its `url`"
            doc.problem(entry.at(key), f"there is no box '{box}' for slot '{slot}'{hint}")
    if entry.driver != "process":
        text = f"serve '{entry.name}' has driver {entry.driver}, which runs on this machine; give it a slot of its own"
        doc.problem(entry.at(key), text)


def check_in_boxes(doc: ConfigDocument, entry: ServeEntry, ignored: Iterable[str]) -> None:
    """Of a serve that is nowhere else. `ignored`: keys without effect for a serve that Stoker does not start here."""
    for key in ignored:  # 2
        if entry.gives(doc, key):
            text = f"has no effect for serve '{entry.name}': the Stoker of the box starts it by its own configuration"
            doc.problem(entry.at(key), f"{text}; remove it, or set it there")


def check_one_place_in_a_box(doc: ConfigDocument, entry: ServeEntry) -> None:
    """Of a serve with `slots`."""
    boxes = [box for place in entry.table.slots if (box := box_of(place))]
    for box in dict.fromkeys(boxes):
        if boxes.count(box) > 1:  # 4
            text = f"has {boxes.count(box)} places in box '{box}': keep one; its Stoker uses all its own places for it"
            doc.problem(entry.at("slots"), text)


def check_kept_in_boxes(doc: ConfigDocument, entry: ServeEntry) -> None:
    """Of a serve with `slots`."""
    table = entry.table
    if entry.is_in_boxes:
        return
    here = sum(not box_of(place) for place in table.slots)
    if table.min_replicas > here:  # 3
        text = f"has a `min` of {table.min_replicas}, and only {here} of its slots are here: a box keeps what it likes"
        doc.problem(entry.at("replicas"), text)
    if table.keep_loaded and any(box_of(place) for place in table.slots[: table.replicas]):  # 3
        text = "holds its first slots for it, and one of them is a box's: name the slots of this machine first"
        doc.problem(entry.at("keep_loaded"), text)
