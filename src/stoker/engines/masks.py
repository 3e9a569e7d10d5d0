"""Which devices an engine sees: a slot's `devices` as the variables and options that its engine obeys. Pure.

Every interface counts the devices of a machine in an order of its own. So a word first finds its card, and the card's
number in the interface that the engine computes with is what the engine gets. `docs/reference/engines.md` has a row
for each vendor and engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.domain.serve import Driver, Serve, Slot
from stoker.engines.record import Api, Engine
from stoker.engines.registry import engine_of

NATIVE: Mapping[str, Api] = {"nvidia": Api.CUDA, "amd": Api.HIP, "intel": Api.LEVEL_ZERO}
"""Vendor -> its own interface, which an engine uses before Vulkan if it has both."""
VARIABLES: Mapping[Api, tuple[str, ...]] = {
    Api.CUDA: ("CUDA_VISIBLE_DEVICES",),
    Api.HIP: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    Api.LEVEL_ZERO: ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
    Api.VULKAN: ("GGML_VK_VISIBLE_DEVICES",),
}
"""What narrows each interface. A serve whose own `env` has one of them chooses its devices there itself."""
PLACEHOLDER = "{devices}"
"""A word of `up` that stands for the options that give a container the devices of its slot."""
_ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_PARTITION = "MIG-"


@dataclass(frozen=True, slots=True)
class Card:
    """One device that a slot can name."""

    vendor: str
    """`nvidia`, `amd` or `intel`."""
    index: int
    """Position in PCI order among the vendor's devices that hold models."""
    uuid: str
    address: str = ""
    """Its place on the PCI bus (`0000:03:00.0`); empty: unknown."""
    name: str = ""
    driver: str | None = None
    numbers: Mapping[Api, int] = field(default_factory=dict)
    """How each interface counts it, without any mask, as far as that is known."""
    node: str = ""
    """Its render node (`/dev/dri/renderD128`); empty: unknown."""


@dataclass(frozen=True, slots=True)
class MachineCards:
    """The devices of this machine."""

    cards: tuple[Card, ...] = ()
    is_complete: bool = True
    """Whether no other device is there: False if a driver did not answer."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Stoker's own, of which children inherit a part."""


@dataclass(frozen=True, slots=True)
class Mask:
    """What restricts an engine to its devices."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be restricted so, with the next step; empty: it can. Then the other fields are empty."""
    note: str = ""
    """What is not restricted, and what would help."""


def names_device(word: str, vendor: str, index: int, uuid: str, address: str = "") -> bool:
    """Whether a word of `devices` means this device.

    1. a number: its position in PCI order among the devices of its vendor
    2. `amd:1`: that of this vendor
    3. its PCI address, with or without the domain
    4. its uuid, or the beginning of it after `GPU-`
    """
    if word.isdigit():
        return int(word) == index  # 1
    maker, colon, number = word.partition(":")
    if colon and maker in NATIVE:
        return (maker, number) == (vendor, str(index))  # 2
    if address and _ADDRESS.fullmatch(word):
        return address.lower().endswith(word.lower())  # 3
    is_beginning = word.startswith("GPU-") and len(word) > len("GPU-")
    return word == uuid or (is_beginning and f"GPU-{uuid.removeprefix('GPU-')}".startswith(word))  # 4


def mask(words: Sequence[str], engine: Engine, apis: frozenset[Api] | None, machine: MachineCards) -> Mask:
    """How an engine is restricted to the devices that `words` name. `apis`: what it computes with; None: unknown, the
    interface of each vendor then.

    1. nothing to restrict: no words, or an engine that sees one device only
    2. no card is known, or a word may mean one that is not shown -> the words themselves, for NVIDIA and AMD
    3. a word means no card, or several -> a problem
    4. cards of vendors that one such engine cannot use together -> a problem
    5. each card in its vendor's interface, or in Vulkan if the engine has only that
    6. a mask that Stoker itself inherited hides one of them -> a problem
    7. an engine with several interfaces is also told the names, so that it leaves all other devices alone
    """
    if not words or apis == frozenset():
        return Mask()  # 1
    meant = _meant(words, machine)
    if not machine.cards or (not all(meant.values()) and not machine.is_complete):
        return Mask(_as_written(words))  # 2
    if (problem := _unclear(meant, machine)) or (problem := _unmixable(meant, engine)):
        return Mask(problem=problem)  # 3, 4
    by_api: dict[Api, list[tuple[str, Card | None]]] = {}
    for word, cards in meant.items():
        for card in cards:
            by_api.setdefault(_api(card, apis), []).append((word, card))
    found, names, notes = dict[str, str](), list[str](), list[str]()
    for api, named in sorted(by_api.items(), key=lambda pair: list(Api).index(pair[0])):  # 5
        values = dict.fromkeys(_value(word, card, api, engine) for word, card in named)
        if None in values:
            notes += [_uncounted(api)] if len(machine.cards) > 1 else []
            continue
        if problem := _inherited_problem(api, [card for _, card in named if card], engine, machine):
            return Mask(problem=problem)  # 6
        found = _variables(api, ",".join(str(value) for value in values), engine, machine) | found
        names += [f"{engine.device_names.get(api)}{number}" for number in range(len(values))]
    if apis is not None and Api.VULKAN in apis and Api.VULKAN not in by_api:
        found["GGML_VK_VISIBLE_DEVICES"] = ""  # its cards are used by their vendors' interface
    is_told = apis is not None and len(apis) > 1 and engine.device_names and not notes  # 7
    return Mask(found, ("--device", ",".join(names)) if is_told else (), note="; ".join(notes))


def masked(serve: Serve, slot: Slot | None, machine: MachineCards) -> Serve:
    """The serve, restricted to its slot's devices. It has a `device_problem` if that cannot be done.

    Its own `env` and `--device` come first: a serve that chooses its devices there itself is left alone. In a container
    the devices count from 0, so nothing is restricted there: `{devices}` in `up` gives it its devices. Its command sees
    the words themselves, which it may pass on.
    """
    words = slot.devices if slot is not None else ()
    found = _masked(serve, words, machine)
    before = {"env": {**_as_written(words), **serve.env}, "extra_args": serve.extra_args, "up": serve.up}
    return replace(found, before_mask=before) if words and serve.driver is not Driver.EXTERNAL else found


def _masked(serve: Serve, words: Sequence[str], machine: MachineCards) -> Serve:
    if serve.driver is Driver.COMPOSE:
        env = {**_as_written(words), **serve.env} if words else serve.env
        if PLACEHOLDER not in (serve.up or ()):
            return replace(serve, env=env)
        unclear = _unclear(_meant(words, machine), machine) if machine.cards and machine.is_complete else ""
        options = container_options(words, machine, serve.up or ())
        up = tuple(option for word in serve.up or () for option in (options if word == PLACEHOLDER else (word,)))
        problem = f"serve '{serve.name}': {unclear}" if unclear else ""
        return replace(serve, up=up, env=env, device_problem=problem)
    engine = engine_of(serve.engine)
    if not words or serve.driver is Driver.EXTERNAL:
        return serve
    if serve.cmd and serve.cmd[0].rpartition("/")[2] in _CONTAINER_TOOLS:
        passes_on = "_VISIBLE_" in " ".join(serve.cmd)
        return replace(serve, env={**_as_written(words), **serve.env}) if passes_on else serve
    found = mask(words, engine, engine.computes_with(serve), machine)
    own = {api for api, names in VARIABLES.items() if any(name in serve.env for name in names)}
    if found.problem:
        problem = "" if own else f"serve '{serve.name}': {found.problem}"
        return replace(serve, env={**_as_written(words), **serve.env}, device_problem=problem)
    taken = {name for api in own for name in VARIABLES[api]}
    environment = {name: value for name, value in found.environment.items() if name not in taken} | dict(serve.env)
    chooses = bool(own) or serve.cmd is not None or any(w.split("=")[0] in _CHOOSE for w in serve.extra_args)
    arguments = () if chooses else found.arguments
    return replace(serve, env=environment, extra_args=(*arguments, *serve.extra_args))


def uses_vulkan(serve: Serve) -> bool:
    """Whether the numbers of Vulkan matter to it."""
    return Api.VULKAN in (engine_of(serve.engine).computes_with(serve) or ())


def note(serve: Serve, slot: Slot | None, machine: MachineCards) -> str:
    """What keeps the serve from being restricted to its slot's devices, though it starts; empty: nothing."""
    if slot is None or not slot.devices or serve.driver in (Driver.COMPOSE, Driver.EXTERNAL):
        return ""
    engine = engine_of(serve.engine)
    found = mask(slot.devices, engine, engine.computes_with(serve), machine)
    return "" if any(name in serve.env for name in VARIABLES[Api.VULKAN]) else found.note


_CHOOSE = ("--device", "-dev")
_CONTAINER_TOOLS = ("docker", "podman")


def container_options(words: Sequence[str], machine: MachineCards, command: Sequence[str] = ()) -> list[str]:
    """Options of `docker run` (`podman run`, if `command` is that) that give a container the cards that `words` name,
    all of the machine's without words. Inside, they count from 0.
    """
    cards = [card for card in machine.cards if not words or any(names_device(w, *_identity(card)) for w in words)]
    has_cdi = bool(command) and command[0].rpartition("/")[2] == "podman"
    shown = [card.uuid for card in cards if card.vendor == "nvidia"]
    shown = ["all"] if shown and not words else shown
    shown += [word for word in words if word.startswith(_PARTITION) or not machine.cards]
    options: list[str] = []
    if has_cdi:
        options += [part for uuid in shown for part in ("--device", f"nvidia.com/gpu={uuid}")]
    elif shown:
        options += ["--gpus", shown[0] if shown == ["all"] else _docker_devices(shown)]
    others = [card for card in cards if card.vendor != "nvidia"]
    if any(card.vendor == "amd" for card in others):
        options += ["--device", "/dev/kfd"]
    nodes = dict.fromkeys(card.node if words and card.node else "/dev/dri" for card in others)
    return options + [part for node in nodes for part in ("--device", node)]


def _docker_devices(uuids: Sequence[str]) -> str:
    """Docker reads the value as CSV: several devices need quotes of their own."""
    joined = f"device={','.join(uuids)}"
    return f'"{joined}"' if len(uuids) > 1 else joined


def _identity(card: Card) -> tuple[str, int, str, str]:
    return card.vendor, card.index, card.uuid, card.address


def _meant(words: Sequence[str], machine: MachineCards) -> dict[str, list[Card | None]]:
    """Word -> the cards that it means; None: a part of a card, which the vendor's interface takes as it is written."""
    return {
        word: [None]
        if word.startswith(_PARTITION)
        else [card for card in machine.cards if names_device(word, *_identity(card))]
        for word in words
    }


def _as_written(words: Sequence[str]) -> dict[str, str]:
    listed = ",".join(words)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed, "HIP_VISIBLE_DEVICES": listed}


def _unclear(meant: Mapping[str, list[Card | None]], machine: MachineCards) -> str:
    if absent := [word for word, cards in meant.items() if not cards]:
        return (
            f"no device is {' or '.join(absent)}: there are {_list(machine.cards)}: correct `devices` of its slot; "
            "`stoker doctor` shows every device"
        )
    for word, cards in meant.items():
        if len(cards) > len({card.vendor if card else "" for card in cards}):
            return f"{word} means {_list(cards)}: write more of it into `devices` of its slot"
    return ""


def _unmixable(meant: Mapping[str, list[Card | None]], engine: Engine) -> str:
    """A bare number may mean a card of each vendor; that is no wish to use them together."""
    if engine.device_names or engine.launch is None:
        return ""
    vendors = [{card.vendor if card else "nvidia" for card in cards} for cards in meant.values()]
    if set.intersection(*vendors):
        return ""
    cards = [card for found in meant.values() for card in found if card]
    return (
        f"its slot names {_list(cards)}, and {engine.title} uses devices of one vendor only: make a slot for each, "
        f'like `devices = ["{cards[0].address or cards[0].vendor + ":" + str(cards[0].index)}"]`'
    )


def _list(cards: Iterable[Card | None]) -> str:
    return ", ".join(
        f"{card.vendor}:{card.index}" + (f" ({card.address})" if card.address else "") for card in cards if card
    )


def _api(card: Card | None, apis: frozenset[Api] | None) -> Api:
    native = Api.CUDA if card is None else NATIVE.get(card.vendor, Api.CUDA)
    return Api.VULKAN if apis is not None and native not in apis and Api.VULKAN in apis else native


def _value(word: str, card: Card | None, api: Api, engine: Engine) -> str | None:
    """What the variable of this interface calls the card; None: its number there is not known."""
    if card is None:
        return word
    if api is Api.CUDA:
        is_uuid = word.startswith("GPU-") and engine.takes_uuids
        return word if is_uuid else str(card.numbers.get(api, card.index))
    if api is Api.HIP and engine.masks_below_hip and card.uuid != card.address:
        return f"GPU-{card.uuid.removeprefix('GPU-')}"
    number = card.numbers.get(api)
    return str(card.index if number is None else number) if api is not Api.VULKAN or number is not None else None


def _variables(api: Api, listed: str, engine: Engine, machine: MachineCards) -> dict[str, str]:
    if api is Api.CUDA:
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed}
    if api is Api.LEVEL_ZERO:
        return {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_AFFINITY_MASK": listed}
    if api is Api.VULKAN:
        return {"GGML_VK_VISIBLE_DEVICES": listed}
    if not engine.masks_below_hip:
        return {"HIP_VISIBLE_DEVICES": listed, "CUDA_VISIBLE_DEVICES": listed}  # unequal values are refused
    inherits = any(name in machine.environment for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))
    # HIP counts within what the lower layer shows, so an inherited mask of HIP must show all of that.
    within = ",".join(str(number) for number in range(listed.count(",") + 1))
    return {"ROCR_VISIBLE_DEVICES": listed} | ({"HIP_VISIBLE_DEVICES": within} if inherits else {})


def _uncounted(api: Api) -> str:
    return (
        f"all devices are visible to it, since it uses {api} and their numbers there are not known: install "
        "`vulkaninfo` (package vulkan-tools), or set `env.GGML_VK_VISIBLE_DEVICES`"
    )


def _inherited_problem(api: Api, cards: Sequence[Card], engine: Engine, machine: MachineCards) -> str:
    """A mask of Stoker's own environment is the share that a batch system or a unit file gave it."""
    ours = machine.environment
    if api is Api.HIP and not engine.masks_below_hip and ours.get("ROCR_VISIBLE_DEVICES"):
        return (
            f"{engine.title} refuses ROCR_VISIBLE_DEVICES, which Stoker's own environment sets: unset it there, or set "
            "HIP_VISIBLE_DEVICES instead"
        )
    name = "HIP_VISIBLE_DEVICES" if api is Api.HIP and not engine.masks_below_hip else VARIABLES[api][0]
    allowed = ours.get(name, "").split(",")
    same = [card for card in machine.cards if NATIVE.get(card.vendor) is api or api is Api.VULKAN]
    if api is Api.CUDA and ours.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and len({card.name for card in same}) > 1:
        return ""  # its numbers count from the fastest device on, which cannot be seen from here
    shown = [card for card in same if any(_is_listed(card, api, word) for word in allowed)]
    hidden = [card for card in cards if card not in shown]
    if not shown or not hidden:
        return ""
    return (
        f"{name}={ours[name]} in Stoker's own environment hides {_list(hidden)}: name one of {_list(shown)} in "
        "`devices` of its slot, or unset the variable"
    )


def _is_listed(card: Card, api: Api, word: str) -> bool:
    if word.isdigit():
        return int(word) == card.numbers.get(api, card.index if api is not Api.VULKAN else -1)
    return bool(word) and names_device(word, *_identity(card))
