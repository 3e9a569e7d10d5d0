"""How `stoker launch` starts an agent: its command, variables and files. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from stoker_setup.clients.client_types import KEY_VALUE, Client, SettingsBlock
from stoker_setup.clients.facts import ClientFacts
from stoker_setup.clients.render import files, fill_block, fill_word, values

NO_KEY = "none"
"""What a client gets where Stoker asks for no key: most refuse to start without one."""
_BLOCK = re.compile(r"<(text|file|options) (\d+)>")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A process to become. `variables` are set and `unset` removed in this process' environment."""

    command: tuple[str, ...]
    variables: Mapping[str, str]
    unset: tuple[str, ...]
    files: Mapping[Path, str]
    """Files to write first. The name has a hash of the text, so that two agents at work do not change each other's."""


def plan_launch(client: Client, facts: ClientFacts, key: str, words: Sequence[str], folder: Path) -> LaunchPlan:
    """The client with this Stoker's model. `key`: the value of its variable, which goes into variables alone. `words`:
    what a person wants of the client, last in its command. `folder`: where files go. The client has a `program`.
    """
    program = client.program
    assert program is not None
    known = values(client, facts)
    blocks = [*files(client, known), *(fill_block(block, known) for block in program.launch_blocks)]
    paths = [_path(folder, client.name, block) for block in blocks]
    used: dict[Path, str] = {}

    def fill(text: str) -> str | None:
        def of_block(match: re.Match[str]) -> str:
            kind, number = match[1], int(match[2])
            if kind == "text":
                return blocks[number].text
            used[paths[number]] = blocks[number].text
            return str(paths[number])

        if _BLOCK.search(text):
            return _BLOCK.sub(of_block, text)
        return key if text == KEY_VALUE else fill_word(text, known)

    command = [fill(word) or "" for word in program.command]
    for word in program.launch_words:
        match = _BLOCK.fullmatch(word)
        if match is not None and match[1] == "options":
            command += [part for option in toml_options(blocks[int(match[2])].text) for part in ("-c", option)]
        else:
            command.append(fill(word) or "")
    variables = {facts.key.variable: key}
    for name, text in (*program.variables, *program.launch_variables):
        if (value := fill(text)) is not None:
            variables[name] = value
    return LaunchPlan((*command, *words), variables, program.unset, used)


def toml_options(text: str) -> list[str]:
    """Each value of a document as `KEY=VALUE`, both in TOML, tables as dotted keys."""

    def walk(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for name, value in table.items():
            key = prefix + (name if _BARE_KEY.fullmatch(name) else json.dumps(name))
            if isinstance(value, dict):
                yield from walk(value, f"{key}.")
            else:  # the blocks have texts, numbers and booleans alone: the same in JSON and TOML
                yield f"{key}={json.dumps(value, ensure_ascii=False)}"

    return list(walk(tomllib.loads(text), ""))


def _path(folder: Path, client: str, block: SettingsBlock) -> Path:
    digest = hashlib.sha256(block.text.encode()).hexdigest()[:12]
    return folder / f"{client}-{digest}{PurePath(block.where).suffix or '.txt'}"
