"""The lines that start each coding agent with one model, for the web page: what `stoker launch` and `stoker client` say
of it.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping

from stoker_setup.clients.all_clients import LAUNCHED
from stoker_setup.clients.choosing import KnownStoker, choose_model, not_ready
from stoker_setup.clients.client_types import Client
from stoker_setup.clients.facts import ClientFacts, key_of, read_root
from stoker_setup.clients.needs import context_shortage
from stoker_setup.clients.render import document


def launch_document(
    known: KnownStoker, serves_there: Mapping[str, str], wanted: str | None, address: str | None, place: str
) -> dict[str, object]:
    """Without a secret: the key is named by its variable. `serves_there`: as in `not_ready`. `address`: with which
    other machines reach Stoker; None: its own. `place`: the options that lead to it. Blocks. Raises UsageError.
    """
    front_door = known.settings.front_door
    root = front_door.local_url if address is None else read_root(address)
    key, chosen = key_of(front_door, None), choose_model(known, wanted)
    trained = chosen.trained_context()
    words = f"--model {shlex.quote(chosen.model)}{place}"
    return {
        "model": chosen.model,
        "serve": None if chosen.is_task else chosen.serve.name,
        "context": chosen.serve.context,
        "problem": not_ready(chosen, serves_there, place),
        "key": {"needed": key.is_needed, "variable": key.variable},
        "agents": [
            _agent(client, chosen.facts(client, root, key), trained, f"stoker launch {client.name} {words}")
            for client in LAUNCHED.values()
        ],
    }


def _agent(client: Client, facts: ClientFacts, trained: int | None, command: str) -> dict[str, object]:
    program = client.program
    assert program is not None
    settings = document(client, facts)
    return {
        "agent": client.name,
        "title": client.title,
        "installed": shutil.which(program.command[0]) is not None,
        "install": program.install,
        "tried": client.tried or None,
        "command": command,
        "context_needed": settings["context_needed"],
        "shortage": context_shortage(client, facts, trained),
        "small_model": settings["small_model"],
        "blocks": settings["blocks"],
    }
