"""Which model of a Stoker a client uses, and what it is told of it. `stoker client`, `stoker launch` and the web page
choose alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stoker.cli.console.errors import UsageError
from stoker.domain.access import Settings
from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import Serve
from stoker.fleet.memory.fit import gguf
from stoker_setup.clients import facts
from stoker_setup.clients.client_types import Client
from stoker_setup.clients.facts import ClientFacts, ClientKey


class KnownStoker(NamedTuple):
    """A Stoker as far as it is known here. `tasks`: names that ask it for a choice, where its file is not known."""

    settings: Settings
    tasks: tuple[str, ...] = ()


class ChosenModel(NamedTuple):
    settings: Settings
    serve: Serve
    model: str
    """The id to ask for."""
    is_task: bool
    """Whether that asks for a choice: see `ClientFacts`."""

    def facts(self, client: Client, root: str, key: ClientKey) -> ClientFacts:
        """What a client is told. `root`: the address of Stoker."""
        helper = None if self.is_task else facts.helper_serve(self.settings, self.serve, client.helper_name)
        stores = self.settings.responses.store
        return ClientFacts(root, self.serve, self.model, key, helper, self.is_task, stores)

    def trained_context(self) -> int | None:
        """Tokens that the model was trained for, from the header of its weights; None: unknown. Blocks."""
        if self.is_task or not self.serve.model.endswith(".gguf"):
            return None
        try:
            return gguf.read(self.serve.model).context
        except (UnreadableModel, OSError):
            return None


def choose_model(known: KnownStoker, wanted: str | None) -> ChosenModel:
    """By any name that clients may ask for; None: the first production serve that converses. Raises UsageError."""
    settings = known.settings
    router = settings.router
    if router is not None and wanted is not None and (serve := facts.common_serve(router, settings.serves, wanted)):
        return ChosenModel(settings, serve, wanted, True)
    if wanted in known.tasks:
        raise UsageError(f"what every tier of '{wanted}' takes is in the configuration, not found here: --config FILE")
    tasks = router.listed if router is not None else known.tasks
    where = settings.source or "the running Stoker"
    serve, asked = facts.choose_serve(facts.with_all_aliases(settings), wanted, where, tasks)
    return ChosenModel(settings, serve, asked, False)


def not_ready(chosen: ChosenModel, serves_there: Mapping[str, str], place: str) -> str | None:
    """Why the running Stoker cannot answer. `serves_there`: its serves, with why each cannot load.

    1. none runs, or a choice is asked for  2. the running one has no such serve  3. it cannot load
    """
    name = chosen.serve.name
    if chosen.is_task or not serves_there:
        return None  # 1
    if name not in serves_there:
        return f"the running Stoker has no serve '{name}' yet: stoker reload{place}"  # 2
    reason = serves_there[name]
    return f"serve '{name}' cannot load: {reason}; another one: --model" if reason else None  # 3
