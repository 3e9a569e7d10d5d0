"""What `stoker add MODEL` means, and the lines that it adds to the configuration. Pure.

hf:ORG/REPO   hf:ORG/REPO:QUANT   hf:ORG/REPO:FILE   https://HUB/ORG/REPO[/blob/main/FILE]   https://HOST/FILE.gguf
ollama:NAME   lmstudio:NAME   PATH/TO/MODEL.gguf   PATH/TO/FOLDER
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from stoker.cli.console.figures import size
from stoker.fleet.weights.sources import parse
from stoker_setup.clients.needs import AGENT_CONTEXT

if TYPE_CHECKING:
    from stoker.cli.machine.discover import ModelFile
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve, Slot
    from stoker_setup.hub_models import Choice

HUBS = ("huggingface.co", "hf.co")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")
_PROGRAMS = {"ollama": "Ollama", "lmstudio": "LM Studio"}


@dataclass(frozen=True, slots=True)
class HubRequest:
    """A repository of the model hub; `wanted` is a file of it, or a quantisation, in any case. Empty: any."""

    repository: str
    wanted: str = ""
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A GGUF file, or a folder of safetensors files, on this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A file at any web address."""

    url: str


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A model that another program has downloaded. `program` empty: any."""

    program: str
    name: str


ModelRequest = HubRequest | FileRequest | WebRequest | ProgramRequest


def parse_model(text: str, hub_address: str) -> ModelRequest:
    """`hub_address`: of the hub that is asked, so that its pages are recognised. Raises ValueError with what to type.

    1. `hf:`  2. a page or file of the hub  3. another web address  4. a model of another program  5. a path
    """
    if text.startswith("hf:"):  # 1
        repository, colon, wanted = text.removeprefix("hf:").partition(":")
        if not colon:
            source = parse(text)
            return HubRequest(source.place, source.path)
        if _REPOSITORY.fullmatch(repository) is None or not wanted:
            raise ValueError(f"{text} names no model: write hf:ORG/REPO, hf:ORG/REPO:QUANT or hf:ORG/REPO:FILE")
        return HubRequest(repository, wanted)
    if text.startswith(("http://", "https://")):
        url = urlsplit(text)
        hub = urlsplit(hub_address)
        if url.netloc in (*HUBS, hub.netloc):  # 2
            return _of_page(text, url.path.removeprefix(hub.path if url.netloc == hub.netloc else ""))
        return WebRequest(str(parse(text).url))  # 3
    program, colon, name = text.partition(":")
    if colon and program in _PROGRAMS and name:  # 4
        return ProgramRequest(_PROGRAMS[program], name)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    is_path = text.startswith((os.sep, ".", "~")) or text.endswith(".gguf") or text.count(os.sep) > 1
    if is_path or path.exists():
        return FileRequest(path)  # 5
    return ProgramRequest("", text)


def _of_page(text: str, path: str) -> HubRequest:
    words = [unquote(word) for word in path.strip("/").split("/")]  # a revision may have slashes, written as %2F
    repository, rest = "/".join(words[:2]), words[2:]
    if _REPOSITORY.fullmatch(repository) is None:
        raise ValueError(f"{text} is no page of a model: write hf:ORG/REPO")
    if rest and rest[0] in ("blob", "resolve", "tree") and len(rest) > 1:
        return HubRequest(repository, "/".join(rest[2:]), rest[1])
    return HubRequest(repository)


def select(choices: Sequence[Choice], wanted: str) -> list[Choice]:
    """Those that a quantisation, a file or a folder names; all, if it is empty. A whole path names one and no other."""
    if exact := [one for one in choices if one.file == wanted]:
        return exact
    lower = wanted.lower()
    return [
        one
        for one in choices
        if not wanted or lower == one.precision.lower() or one.file.startswith(f"{wanted}/")
        or one.file.rpartition("/")[2] == wanted
    ]  # fmt: skip


def spellings(model: ModelFile) -> set[str]:
    """The names, in lower case, by which a model of another program is known."""
    inner = model.origin.partition("(")[2].removesuffix(")")
    names = {model.name, inner, inner.removesuffix(":latest"), model.path.name, model.path.stem, model.path.parent.name,
             f"{model.path.parent.parent.name}/{model.path.parent.name}"}  # fmt: skip
    return {name.lower() for name in names if name}


def taken_names(settings: Settings) -> set[str]:
    """Every name that a client may ask for, and that of each serve and tier."""
    names = {name for serve in settings.serves for name in (serve.name, *serve.names())}
    names |= {alias.name for alias in settings.aliases}
    return names | {tier.name for tier in settings.router.tiers} if settings.router is not None else names


def choose_slot(settings: Settings, has_devices: bool) -> Slot | None:
    """Of this machine: one with devices, if it has any; the one with the fewest serves; the first. None: there is no
    slot.
    """
    here = [slot for slot in settings.slots if slot.cluster is None]
    return min(here, key=lambda slot: (has_devices and not slot.devices, len(users(settings, slot.name))), default=None)


def users(settings: Settings, slot: str) -> list[Serve]:
    """The serves that may be loaded in this slot."""
    from stoker.domain.serve import slots_of

    return [
        serve
        for serve in settings.serves
        if any(slot in slots_of(place) for place in (serve.slots or ((serve.slot,) if serve.slot else ())))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLines:
    """A `[[serve]]` that is added."""

    name: str
    model: str
    """A path, or `vault:NAME`."""
    slot: str
    title: str
    """What the person typed, in words."""
    size: int
    context: int
    is_guess: bool = False
    is_whole: bool = False
    """Whether the context is all that the model was trained for."""
    parallel: int = 1
    engine: str = ""
    """Empty: the usual one."""
    settings: Sequence[str] = ()
    """Further lines, `key = value`, with which it was judged."""
    source: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)


def block(lines: ServeLines) -> str:
    """The text of the `[[serve]]`, with a comment at each choice."""
    few = f"; coding agents need about {AGENT_CONTEXT} or more" if lines.context < AGENT_CONTEXT else ""
    why = "all that the model was trained for" if lines.is_whole else "the most that fit"
    if lines.is_guess:
        why = "a guess: nothing says what fits"
    pairs = [f"{quote(name)} = {quote(digest)}" for name, digest in lines.sha256.items()]
    text = [
        f"# {comment(lines.title)}, by `stoker add`; `stoker remove {lines.name}` takes it out",
        "[[serve]]",
        f"name = {quote(lines.name)}",
        *([f"engine = {quote(lines.engine)}"] if lines.engine else []),
        f"model = {quote(lines.model)}   # {size(lines.size)}",
        f"slot = {quote(lines.slot)}",
        f"context = {lines.context:<20}# tokens that one request may use: {why}{few}",
        f"parallel = {lines.parallel:<19}# requests at once; memory grows with context x parallel",
        *(f"{line:<30}# so that it fits" for line in lines.settings),
        *([f"source = {quote(lines.source)}"] if lines.source else []),
        *([f"sha256 = {{ {pairs[0]} }}"] if len(pairs) == 1 else ["[serve.sha256]", *pairs] if pairs else []),
    ]
    return "\n".join(line.rstrip() for line in text) + "\n"


def quote(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False)


def comment(text: str) -> str:
    """Text that cannot end a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)
