"""The tables `[boxes.NAME]` and `[idle_suspend]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from stoker.config.document import ConfigDocument
from stoker.config.sections import Section, WholeFile
from stoker.domain.access import Settings
from stoker.domain.kinds import BaseUrl, Command, Form, Port, SomeDuration, plain, setting
from stoker.domain.serve import SecretSource, box_of, slots_of

_MAC = re.compile(r"[0-9a-f]{2}(?:([:-]?)[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}")


def _mac(value: object) -> str:
    text = plain(value).lower()
    if not _MAC.fullmatch(text):
        raise ValueError('is not a MAC address; write one like "a4:bb:6d:01:23:45"')
    digits = re.sub("[:-]", "", text)
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _ip(value: object) -> str:
    text = plain(value)
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError('is not an IP address; write one like "192.168.1.255"') from None


Mac = Annotated[str, Form(_mac, {"type": "string", "examples": ["a4:bb:6d:01:23:45"]})]
IpAddress = Annotated[str, Form(_ip, {"type": "string", "examples": ["192.168.1.255"]})]


class Box(msgspec.Struct, frozen=True):
    """Another machine with a Stoker."""

    url: Annotated[BaseUrl | None, setting('Required. Where its Stoker answers: `"http://box2:8000"`.')] = None
    key: Annotated[
        SecretSource | None,
        setting(
            "A key of that Stoker, of scope observe: `env:NAME` or `file:PATH`. With one of scope admin, what "
            "this Stoker had loaded there is also unloaded there with it, if nobody uses it at that moment."
        ),
    ] = None
    mac: Annotated[
        Mac | None,
        setting("The MAC address of its network card, to wake it when it sleeps. Left out: it is not woken."),
    ] = None
    wake_address: Annotated[
        IpAddress, setting("Where the packet that wakes it is sent: the broadcast address of its network.")
    ] = "255.255.255.255"
    wake_port: Annotated[Port, setting("The UDP port of that packet.")] = 9
    wake_timeout: Annotated[
        SomeDuration, setting("How long it may take from the first packet until its Stoker answers.")
    ] = 120.0


class IdleSuspend(msgspec.Struct, frozen=True):
    """Lets this machine sleep while nobody asks for anything."""

    command: Annotated[
        Command | None,
        setting('Required. What puts it to sleep, never through a shell: `["systemctl", "suspend"]`.'),
    ] = None
    after: Annotated[SomeDuration, setting("Time without any request, load or download after which it is run.")] = (
        1800.0
    )
    timeout: Annotated[SomeDuration, setting("How long the command may run until it is ended.")] = 60.0


def _check_boxes(doc: ConfigDocument, boxes: Mapping[str, Box], whole: WholeFile) -> None:
    """1 it has an address, without a path that belongs to requests  2 it is not this Stoker  3 somebody uses it"""
    used = {
        box_of(slot)
        for entry in whole.entries
        for place in (entry.table.slot, *entry.table.slots)
        if place
        for slot in slots_of(place)
    }
    door = whole.file.front_door
    for name, box in boxes.items():
        path = ("boxes", name)
        if box.url is None:
            if not doc.is_spoiled((*path, "url")):
                doc.problem(path, '`url` is missing: where its Stoker answers, like "http://box2:8000"')  # 1
            continue
        url = urlsplit(box.url)
        if url.path.rstrip("/").endswith("/v1"):
            doc.problem((*path, "url"), "ends with /v1, which is for requests alone: leave it out")  # 1
        is_here = url.hostname in ("localhost", "127.0.0.1", "::1")
        if (
            is_here
            and (url.port or (443 if url.scheme == "https" else 80)) == door.port
            and box.url.startswith(f"{door.scheme}:")
        ):
            doc.problem((*path, "url"), "is this Stoker's own address; name that of the other one")  # 2
        if name not in used and not doc.is_spoiled(("serve",)):
            text = f'is used by no serve: give one the slot "{name}:SLOT", or remove the section'
            doc.problem(path, text)  # 3


def _check_idle(doc: ConfigDocument, found: IdleSuspend) -> None:
    if found.command is None and not doc.is_spoiled(("idle_suspend", "command")):
        doc.problem(("idle_suspend",), '`command` is missing: what puts the machine to sleep, like "systemctl suspend"')
    if found.after < 60 and not doc.is_spoiled(("idle_suspend", "after")):
        doc.problem(("idle_suspend", "after"), 'is too short to wake up and answer in; use at least "1m"')


BOXES = Section(
    Box,
    "Other machines with a Stoker, whose slots serves may name: `[boxes.NAME]`.",
    by_name=True,
    check_with=_check_boxes,
    noun="box",
)
IDLE_SUSPEND = Section(
    IdleSuspend, "A command that lets this machine sleep while nobody asks for anything.", _check_idle
)


def boxes_of(settings: Settings) -> Mapping[str, Box]:
    """By name."""
    found = settings.extensions.get("boxes")
    return found if isinstance(found, Mapping) else {}


def idle_suspend_of(settings: Settings) -> IdleSuspend | None:
    found = settings.extensions.get("idle_suspend")
    return found if isinstance(found, IdleSuspend) else None
