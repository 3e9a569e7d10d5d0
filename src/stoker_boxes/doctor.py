"""The checks of `doctor` for boxes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker_boxes.table import boxes_of

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker_boxes.table import Box


def findings(settings: Settings) -> list[DoctorFinding]:
    """One finding for each box. Nothing is woken for it."""
    return [_box(name, box, settings) for name, box in boxes_of(settings).items()]


def _box(name: str, box: Box, settings: Settings) -> DoctorFinding:
    from stoker.domain.errors import ConfigError
    from stoker.domain.serve import in_box, replicas_of
    from stoker_boxes.box_api import BoxApi, BoxRefused, BoxSilent
    from stoker_boxes.there import Unfit, serve_there

    part = f"box {name}"
    try:
        document = asyncio.run(BoxApi(name, box).status())
    except BoxSilent as silent:
        if box.mac is not None and not silent.is_awake:
            detail = f"does not answer at {box.url}: it sleeps, or is off; a request wakes it"
            return DoctorFinding(part, DoctorHealth.OK, detail)
        fix = f"start its Stoker, correct `url` of [boxes.{name}], or set `mac` to have it woken"
        if silent.is_awake:
            fix = f"correct its certificate, or `url` of [boxes.{name}]"
        return DoctorFinding(part, DoctorHealth.WARN, silent.message, fix, "stoker doctor")
    except (BoxRefused, ConfigError) as refused:
        fix = f"`key` of [boxes.{name}] must be one of that Stoker's, of scope observe: make one there"
        return DoctorFinding(part, DoctorHealth.FAIL, refused.message, fix, "stoker doctor")
    slots = {slot.name: slot for slot in settings.slots if slot.box == name}
    serves = [in_box(one, slots[one.slot]) for serve in settings.serves for one in replicas_of(serve)
              if one.slot in slots]  # fmt: skip
    for serve in serves:
        assert serve.box_place is not None
        found = serve_there(document, serve.box_place)
        if isinstance(found, Unfit):
            detail = f"serve '{serve.name}' cannot be loaded: the box {found.message}"
            fix = "correct it there or here, as it says"
            return DoctorFinding(part, DoctorHealth.FAIL, detail, fix, "stoker doctor")
    names = ", ".join(serve.name for serve in serves)
    return DoctorFinding(part, DoctorHealth.OK, f"Stoker {document['version']} at {box.url} can load {names}")
