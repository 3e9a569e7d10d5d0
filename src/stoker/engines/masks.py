"""Which devices an engine sees: a slot's `devices` as the variables and options that its engine obeys. Pure.

Every interface counts the devices of a machine in an order of its own. So a word first finds its card, and the card's
number in the interface that the engine computes with is what the engine gets. `docs/reference/engines.md` has a row
for each vendor and engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from stoker.domain.serve import Driver, Serve, Slot
from stoker.engines.record import Api, Engine
from stoker.engines.registry import engine_of

NATIVE: Mapping[str, Api] = {"nvidia": Api.CUDA, "amd": Api.HIP, "intel": Api.LEVEL_ZERO, "apple": Api.METAL}
"""Vendor -> its own interface, which an engine uses before Vulkan if it has both."""
VARIABLES: Mapping[Api, tuple[str, ...]] = {
    Api.CUDA: ("CUDA_VISIBLE_DEVICES",),
    Api.HIP: ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    Api.LEVEL_ZERO: ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
    Api.VULKAN: ("GGML_VK_VISIBLE_DEVICES",),
    Api.METAL: (),  # a Mac has one device
}
"""What narrows each interface. A serve whose own `env` has one of them chooses its devices there itself."""
PLACEHOLDER = "{devices}"
"""A word of `up` that stands for the options that give a container the devices of its slot."""
_ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
PARTITION = "MIG-"
"""How the names of parts of NVIDIA devices begin."""


@dataclass(frozen=True, slots=True)
class Card:
    """One device that a slot can name."""

    vendor: str
    """`nvidia`, `amd`, `intel` or `apple`."""
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
    unseen: frozenset[str] = frozenset()
    """Vendors that may have further devices, since a driver or a device did not answer."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Stoker's own, of which children inherit a part."""

    @property
    def is_complete(self) -> bool:
        """Whether no other device is there."""
        return not self.unseen


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
    if _is_number(word):
        return int(word) == index  # 1
    maker, colon, number = word.partition(":")
    if colon and maker in NATIVE:
        return (maker, number) == (vendor, str(index))  # 2
    if address and _ADDRESS.fullmatch(word):
        return address.lower().endswith(word.lower())  # 3
    is_beginning = word.startswith("GPU-") and len(word) > len("GPU-")
    return word == uuid or (is_beginning and f"GPU-{uuid.removeprefix('GPU-')}".startswith(word))  # 4


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def mask(words: Sequence[str], engine: Engine, apis: frozenset[Api] | None, machine: MachineCards) -> Mask:
    """How an engine is restricted to the devices that `words` name. `apis`: what it computes with; None: unknown, the
    interface of each vendor then.

    1. nothing to restrict: no words, or an engine that sees one device only, or a machine that has only one, as Macs
    2. a number means cards that the engine can use; one that may mean a card which is not shown is passed on, too
    3. a word means no card, several, none that the engine can use, or nothing that can be passed on -> a problem
    4. cards of vendors that one such engine cannot use together -> a problem
    5. each card in its vendor's interface, or in Vulkan if the engine has only that
    6. a mask that Stoker itself inherited hides one of them -> a problem
    7. an engine with several interfaces sees nothing by those that no word uses, and is also told the names of its
       devices, so that it leaves all others alone
    """
    if not words or apis == frozenset():
        return Mask()  # 1
    meant = _meant(words, machine, apis)
    unseen = _unseen(machine, apis)
    passed_on = [word for word, cards in meant.items() if _may_mean_more(word, cards, unseen)]  # 2
    certain = {word: cards for word, cards in _meant(words, machine).items() if word not in passed_on}
    problem = (
        _unusable(certain, engine, apis, machine)
        or _unclear({word: meant[word] for word in certain}, machine)
        or _untranslatable([word for word in passed_on if not meant[word]], unseen)
    )
    if not problem and {card.vendor if card else "" for cards in meant.values() for card in cards} == {"apple"}:
        return Mask()  # 1
    if problem or (problem := _unmixable({word: cards for word, cards in meant.items() if cards}, engine)):
        return Mask(problem=problem)  # 3, 4
    are_ids = engine.takes_uuids and all(word.startswith(("GPU-", PARTITION)) for word in meant)
    written = {word: word if word in passed_on or are_ids else _counted(word, cards) for word, cards in meant.items()}
    guessed = _passed_on(list(written.values()), unseen) if passed_on else {}
    if guessed and not engine.masks_below_hip:
        return Mask(guessed)  # AMD's and NVIDIA's variables have to be equal
    by_api: dict[Api, list[tuple[str, Card | None]]] = {}
    for word, cards in meant.items():
        for card in cards:
            by_api.setdefault(_api(card, apis), []).append((word, card))
    found, names, notes, is_counted = dict[str, str](), list[str](), list[str](), True
    for api, named in sorted(by_api.items(), key=lambda pair: list(Api).index(pair[0])):  # 5
        values = _values(named, api, engine)
        if values is None:
            notes += [_uncounted(api)] if len(machine.cards) > 1 else []
            is_counted = False
            continue
        if problem := _inherited_problem(api, named, engine, machine):
            return Mask(problem=problem)  # 6
        found = _variables(api, ",".join(values), engine, machine) | found
        names += [f"{engine.device_names.get(api)}{number}" for number in range(len(values))]
    found |= {name: value for name, value in guessed.items() if name != "HIP_VISIBLE_DEVICES" or Api.HIP not in by_api}
    for api in (apis or frozenset()) - by_api.keys() if machine.cards else ():  # 7
        if VARIABLES[api][0] not in guessed and (name := _EMPTY.get(api)):
            found.setdefault(name, "")
    if found.get("ROCR_VISIBLE_DEVICES") and found.get("CUDA_VISIBLE_DEVICES"):
        count = found["ROCR_VISIBLE_DEVICES"].count(",") + 1  # else HIP would follow the mask of CUDA
        found["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(count)))
    is_told = apis is not None and len(apis) > 1 and engine.device_names and is_counted and not passed_on
    return Mask(found, ("--device", ",".join(names)) if is_told else (), note="; ".join(notes))


_EMPTY = {
    Api.CUDA: "CUDA_VISIBLE_DEVICES",
    Api.HIP: "ROCR_VISIBLE_DEVICES",
    Api.VULKAN: "GGML_VK_VISIBLE_DEVICES",
}
"""The variables by which an interface shows nothing when they are empty.

CUDA: its programming guide, 5.2.1.1: with CUDA_VISIBLE_DEVICES set to an empty string no device is visible
(docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html).
ROCr: `RvdFilter::SelectZeroDevices` (amd_filter_device.cpp) takes a variable that is set and empty for no device; HIP
itself (rocdevice.cpp) takes an empty one for all.
llama.cpp: `ggml_vk_instance_init` (ggml-vulkan.cpp) uses what is listed, all only if the variable is not
set. Level Zero has none: `ExecutionEnvironment::parseAffinityMask` of Intel's driver (compute-runtime) takes an empty
ZE_AFFINITY_MASK for all devices; there `--device` alone keeps an engine away from them.
"""


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
        problem = container_problem(words, machine)
        options = container_options(words, machine, serve.up or ())
        up = tuple(option for word in serve.up or () for option in (options if word == PLACEHOLDER else (word,)))
        return replace(serve, up=up, env=env, device_problem=f"serve '{serve.name}': {problem}" if problem else "")
    engine = engine_of(serve.engine)
    if not words or serve.driver is Driver.EXTERNAL:
        return serve
    if serve.cmd and _container_tool(serve.cmd):
        passes_on = "_VISIBLE_" in " ".join(serve.cmd)
        return replace(serve, env={**_as_written(words), **serve.env}) if passes_on else serve
    found = mask(words, engine, engine.computes_with(serve), machine)
    own = {api for api, names in VARIABLES.items() if any(name in serve.env for name in names)}
    if found.problem:
        problem = "" if own else f"serve '{serve.name}': {found.problem}"
        return replace(serve, device_problem=problem)
    vendors = {card.vendor for card in machine.cards}
    if own & {Api.CUDA, Api.HIP} and "amd" in vendors and "nvidia" not in vendors:
        own |= {Api.CUDA, Api.HIP}  # AMD's engines obey both, and refuse values that differ
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


def pitfalls(machine: MachineCards, is_vulkan_used: bool = True) -> list[str]:
    """Where a number by hand would mean another device than its number in `devices`."""
    found = []
    of = {vendor: [card for card in machine.cards if card.vendor == vendor] for vendor in NATIVE}
    if len({card.name for card in of["nvidia"]}) > 1:
        found.append("CUDA by itself counts from the fastest device on: slots set CUDA_DEVICE_ORDER=PCI_BUS_ID")
    moved = [card for card in machine.cards if card.numbers.get(NATIVE[card.vendor], card.index) != card.index]
    if moved:
        names = ", ".join(f"{card.vendor}:{card.index}" for card in moved)
        found.append(f"the runtime also counts graphics inside the processor, so its numbers differ for {names}")
    if any(card.numbers.get(Api.VULKAN, card.index) != card.index for card in machine.cards):
        found.append("Vulkan counts the devices of all vendors, in an order of its own")
    if len([vendor for vendor in of if of[vendor]]) > 1:
        found.append("several vendors: `devices` takes `nvidia:0`, `amd:0`, ids and PCI addresses")
    if is_vulkan_used and len(machine.cards) > 1 and any(Api.VULKAN not in card.numbers for card in machine.cards):
        found.append("without `vulkaninfo` (package vulkan-tools) an engine on Vulkan sees all devices")
    return found


def chooses_itself(serve: Serve, words: Sequence[str]) -> bool:
    """Whether the serve itself says what it computes with: no device, or those of a mask of its own, which is another
    than the one of `words`, the devices of its slot.
    """
    before = serve.before_mask.get("env", serve.env)
    own, given = before if isinstance(before, Mapping) else {}, _as_written(words)
    if any(name in own and own[name] != given.get(name) for names in VARIABLES.values() for name in names):
        return True
    typed = " ".join((*(serve.cmd or ()), *(serve.up or ()), *serve.extra_args)).replace("=", " ").split()
    chosen = {name: own.get(variable) for name, variable in _OF_LLAMA_CPP.items()}
    for option, value in pairwise(typed):
        for name, spellings in (("layers", _LAYERS), ("device", _CHOOSE)):
            chosen[name] = value if option in spellings else chosen[name]
    return chosen["layers"] == "0" or chosen["device"] in ("none", "cpu")


_OF_LLAMA_CPP = {"layers": "LLAMA_ARG_N_GPU_LAYERS", "device": "LLAMA_ARG_DEVICE"}
_LAYERS = ("-ngl", "--gpu-layers", "--n-gpu-layers")
_CHOOSE = ("--device", "-dev")
_CONTAINER_TOOLS = ("docker", "podman")


def container_options(words: Sequence[str], machine: MachineCards, command: Sequence[str] = ()) -> list[str]:
    """Options of `docker run` (`podman run`, if `command` is that) that give a container the cards that `words` name,
    all of the machine's without words. Inside, they count from 0.
    """
    cards = [card for card in machine.cards if not words or any(names_device(w, *_identity(card)) for w in words)]
    has_cdi = _container_tool(command) == "podman"
    shown = [card.uuid for card in cards if card.vendor == "nvidia"]
    shown = ["all"] if shown and not words else shown
    of_nvidia = not machine.cards or "nvidia" in machine.unseen or any(c.vendor == "nvidia" for c in machine.cards)
    absent = [word for word, meant in _meant(words, machine).items() if not meant]
    shown += [word for word in words if word.startswith(PARTITION)]
    shown += [word.removeprefix("nvidia:") for word in absent if of_nvidia]  # its tool says what is wrong with it
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


def container_problem(words: Sequence[str], machine: MachineCards) -> str:
    """Why a container cannot be given the devices that `words` name, with the next step; empty: it can."""
    unseen = _unseen(machine, None)
    meant = _meant(words, machine)
    clear = {word: cards for word, cards in meant.items() if cards or not unseen}
    return _unclear(clear, machine) or _untranslatable([word for word in meant if word not in clear], {"nvidia"})


def _container_tool(command: Sequence[str]) -> str:
    """`docker` or `podman`, if the command is that, also by `sudo`; else empty."""
    for word in command:
        name = word.rpartition("/")[2]
        if name in _CONTAINER_TOOLS:
            return name
        if name not in ("sudo", "doas", "env") and not word.startswith("-") and "=" not in word:
            break
    return ""


def _docker_devices(uuids: Sequence[str]) -> str:
    """Docker reads the value as CSV: several devices need quotes of their own."""
    joined = f"device={','.join(uuids)}"
    return f'"{joined}"' if len(uuids) > 1 else joined


def _identity(card: Card) -> tuple[str, int, str, str]:
    return card.vendor, card.index, card.uuid, card.address


def _meant(
    words: Sequence[str], machine: MachineCards, apis: frozenset[Api] | None = None
) -> dict[str, list[Card | None]]:
    """Word -> the cards that it means, a number only those that these interfaces reach. None: a part of a card, which
    the vendor's interface takes as it is written.
    """
    return {
        word: [None]
        if word.startswith(PARTITION)
        else [
            card
            for card in machine.cards
            if names_device(word, *_identity(card)) and (not _is_number(word) or _reaches(card, apis))
        ]
        for word in words
    }


def can_use(vendor: str, apis: frozenset[Api] | None) -> bool:
    """Whether an engine that computes with these interfaces can use devices of the vendor. None: nobody knows."""
    return apis is None or NATIVE.get(vendor, Api.CUDA) in apis or Api.VULKAN in apis


def _reaches(card: Card | None, apis: frozenset[Api] | None) -> bool:
    return can_use(card.vendor, apis) if card is not None else apis is None or Api.CUDA in apis


def _unseen(machine: MachineCards, apis: frozenset[Api] | None) -> frozenset[str]:
    """Vendors whose devices are not all shown, and that the engine may use."""
    if machine.cards:
        return frozenset(vendor for vendor in machine.unseen if apis is None or NATIVE[vendor] in apis)
    usable = frozenset(vendor for vendor in ("nvidia", "amd") if apis is None or apis & {NATIVE[vendor], Api.VULKAN})
    return usable or frozenset(("nvidia", "amd"))


def _may_mean_more(word: str, cards: Sequence[Card | None], unseen: frozenset[str]) -> bool:
    """Whether it may mean a device that is not shown; of a number each vendor may have one."""
    if _is_number(word):
        return bool(unseen - {card.vendor for card in cards if card})
    return bool(unseen) and not cards


def _passed_on(words: Sequence[str], vendors: Iterable[str]) -> dict[str, str]:
    """Words that may mean devices which are not shown, as their engines take them."""
    found: dict[str, str] = {}
    for vendor, of_another in (("nvidia", "amd:"), ("amd", "nvidia:")):
        values = [word.removeprefix(f"{vendor}:") for word in words if not word.startswith(of_another)]
        listed = ",".join(dict.fromkeys(values))
        if listed and (vendor in vendors or vendor == "amd"):
            found["CUDA_VISIBLE_DEVICES" if vendor == "nvidia" else "HIP_VISIBLE_DEVICES"] = listed
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | found if "CUDA_VISIBLE_DEVICES" in found else found


def _counted(word: str, cards: Sequence[Card | None]) -> str:
    """The word, or `amd:2` for a known card: its number by its vendor's interface."""
    for card in cards:
        if card is not None:
            return f"{card.vendor}:{card.numbers.get(NATIVE[card.vendor], card.index)}"
    return word


def _untranslatable(words: Sequence[str], unseen: Iterable[str]) -> str:
    vendors = set(unseen)
    for word in words:
        maker = word.partition(":")[0]
        if _ADDRESS.fullmatch(word):
            return (
                f"nobody knows which device is {word}, since no driver shows it: type `pip install nvidia-ml-py` for "
                "NVIDIA's, or write its number or id into `devices` of its slot"
            )
        if maker in NATIVE and maker not in vendors:
            return f"no device is {word}: correct `devices` of its slot; `stoker doctor` shows every device"
    return ""


def _unusable(
    meant: Mapping[str, list[Card | None]], engine: Engine, apis: frozenset[Api] | None, machine: MachineCards
) -> str:
    for word, cards in meant.items():
        if cards and not any(_reaches(card, apis) for card in cards):
            usable = _list(card for card in machine.cards if _reaches(card, apis))
            return (
                f"{engine.title} as it is built here ({', '.join(sorted(apis or ()))}) cannot use {word}: "
                + (f"name one of {usable} in `devices` of its slot, or " if usable else "")
                + "install a build for that device"
            )
    return ""


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
    if not vendors or set.intersection(*vendors):
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


def _values(named: Sequence[tuple[str, Card | None]], api: Api, engine: Engine) -> list[str] | None:
    """What the variable of this interface calls these cards, each once; None: a number there is not known. CUDA takes
    ids or numbers, not both.
    """
    are_ids = engine.takes_uuids and all(word.startswith(("GPU-", PARTITION)) for word, _ in named)
    values: dict[str, str | None] = {}
    for word, card in named:
        values.setdefault(word if card is None else card.uuid, _value(word, card, api, engine, are_ids))
    counted = [value for value in values.values() if value is not None]
    return counted if len(counted) == len(values) else None


def _value(word: str, card: Card | None, api: Api, engine: Engine, are_ids: bool) -> str | None:
    if card is None:
        return word
    if api is Api.CUDA:
        return word if are_ids else str(card.numbers.get(api, card.index))
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


def _inherited_problem(
    api: Api, named: Sequence[tuple[str, Card | None]], engine: Engine, machine: MachineCards
) -> str:
    """A mask of Stoker's own environment is the share that a batch system or a unit file gave it."""
    ours = machine.environment
    if api is Api.HIP and not engine.masks_below_hip and ours.get("ROCR_VISIBLE_DEVICES"):
        return (
            f"{engine.title} refuses ROCR_VISIBLE_DEVICES, which Stoker's own environment sets: unset it there, or set "
            "HIP_VISIBLE_DEVICES instead"
        )
    name = "HIP_VISIBLE_DEVICES" if api is Api.HIP and not engine.masks_below_hip else VARIABLES[api][0]
    if name not in ours or (not ours[name] and name not in _EMPTY.values()):
        return ""
    allowed = [word.strip() for word in ours[name].split(",")]
    same = [card for card in machine.cards if NATIVE.get(card.vendor) is api or api is Api.VULKAN]
    is_by_speed = api is Api.CUDA and ours.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    if is_by_speed and len({card.name for card in same}) > 1 and all(_is_number(word) for word in allowed):
        return ""  # its numbers count from the fastest device on, which cannot be seen from here
    shown = [card for card in same if any(_is_listed(card, api, word) for word in allowed)]
    hidden = [
        word if card is None else _list([card])
        for word, card in named
        if not (_is_part_shown(word, allowed, shown, same) if card is None else card in shown)
    ]
    if not hidden:
        return ""
    choice = _list(shown) or ", ".join(word for word in allowed if word.startswith(PARTITION))
    return (
        f"{name}={ours[name]} in Stoker's own environment hides {', '.join(hidden)}: "
        + (f"name one of {choice} in `devices` of its slot, or " if choice else "")
        + "unset the variable"
    )


def _is_part_shown(word: str, allowed: Sequence[str], shown: Sequence[Card], same: Sequence[Card]) -> bool:
    """Only some names of parts hold that of their card."""
    parent = any(word.startswith(f"{PARTITION}{card.uuid}") for card in shown)
    return word in allowed or parent or len(shown) == len(same)


def _is_listed(card: Card, api: Api, word: str) -> bool:
    if _is_number(word):
        return int(word) == card.numbers.get(api, card.index if api is not Api.VULKAN else -1)
    return bool(word) and names_device(word, *_identity(card))
