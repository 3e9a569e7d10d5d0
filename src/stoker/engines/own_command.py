"""A serve's own `cmd`, with its placeholders filled in, never through a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable

from stoker.domain.serve import Serve
from stoker.engines import weight_files
from stoker.engines.launch import Launch, LaunchPlace, find_command, missing_command
from stoker.engines.record import Weights
from stoker.engines.registry import engine_of

_PLACEHOLDER = re.compile(r"(?<!\{)\{(port|model|dir|host|name|key|rank|ranks|rendezvous_host|rendezvous_port)\}")


def launch(serve: Serve, place: LaunchPlace) -> Launch:
    words = serve.cmd or ()
    filled = fill(serve, place, (*words, *serve.extra_args))
    command = find_command(serve, filled[0]) or filled[0]
    # Some engines read their key here, in any wrapper; `{key}` on a command line would be visible in `ps`.
    variable = engine_of(serve.engine).key_variable
    environment = {variable: place.key} if variable else {}
    takes_key = bool(variable) or any(found[1] == "key" for word in words for found in _PLACEHOLDER.finditer(word))
    return Launch((command, *filled[1:]), environment, takes_key)


def fill(serve: Serve, place: LaunchPlace, words: Iterable[str], but: Container[str] = ()) -> tuple[str, ...]:
    """The words with their placeholders filled in, except those in `but`. `{name}` is the served name, which /v1/models
    has to list. `{{...}}` and other braces are kept (templates, JSON).
    """
    values = {
        "port": str(place.port),
        "model": serve.model,
        "dir": serve.directory,
        "host": serve.host,
        "name": serve.served_name or serve.name,
        "key": place.key,
    }
    if (rank := place.rank) is not None:
        values |= {
            "rank": str(rank.number), "ranks": str(rank.count),
            "rendezvous_host": rank.host, "rendezvous_port": str(rank.port),
        }  # fmt: skip

    def value(found: re.Match[str]) -> str:
        return found[0] if found[1] in but else values.get(found[1], found[0])

    return tuple(_PLACEHOLDER.sub(value, word) for word in words)


def problems(serve: Serve) -> list[str]:
    """What prevents a start: one sentence each."""
    if not serve.cmd:
        return [f"serve '{serve.name}' has engine {serve.engine} and no command: set `cmd`"]
    found = []
    command = _PLACEHOLDER.sub(lambda match: serve.directory if match[1] == "dir" else match[0], serve.cmd[0])
    if find_command(serve, command) is None:
        found.append(missing_command(serve, command))
    # Only a path can be checked; a hub id, or a name with a meaning for the engine, cannot.
    if os.path.isabs(serve.model) and any("{model}" in word for word in serve.cmd):
        is_gguf = engine_of(serve.engine).weights is Weights.GGUF
        found += weight_files.problems(serve) if is_gguf else weight_files.missing(serve)
    return found
