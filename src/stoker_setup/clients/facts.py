"""What every client needs: address, model, key, context. Pure; nothing here knows the value of a secret."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from stoker.access.access_control import AccessControl
from stoker.cli.console.errors import UsageError
from stoker.domain.access import ListenSettings, Settings
from stoker.domain.dialect import TARGETS
from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.routing import AUTO, RouterSettings
from stoker.domain.serve import Serve, Status, share_slot
from stoker.domain.tier import Tier
from stoker.request.decide.aliases import with_aliases
from stoker.request.decide.names import Names

DEFAULT_VARIABLE = "STOKER_KEY"
STEP = 1024
MAX_OUTPUT = 32_768
ASSUMED_OUTPUT = 4096
"""Tokens of a reply where no ceiling is known: what Stoker itself asks for where a client gives no limit."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGES = frozenset(("image", "images", "vision"))


@dataclass(frozen=True, slots=True)
class ClientKey:
    """How a client proves who it is: by the value of an environment variable."""

    variable: str
    is_needed: bool
    source: str = ""
    """Where Stoker reads it (`env:NAME`, `file:PATH`); empty: the configuration says nothing."""


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """One Stoker and one of its models, as a client sees them."""

    root: str
    """Its address without `/v1` and without a slash at the end."""
    serve: Serve
    model: str
    """The id to ask for: any of the serve's names, or one that asks for a choice."""
    key: ClientKey
    helper: Serve | None = None
    """The serve for the small requests of agents; None: the same model."""
    is_task: bool = False
    """Routing chooses a tier for each request; `serve` is then made of what all its tiers have in common."""
    stores_responses: bool = False
    """Whether requests of the Responses API can refer to earlier ones."""

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    @property
    def ceiling(self) -> int | None:
        """Tokens of prompt and reply together; None: the configuration does not say."""
        return self.serve.context

    @property
    def max_output(self) -> int:
        return budgets(self.ceiling)[1]

    @property
    def client_context(self) -> int | None:
        """Tokens that a client should let its prompts grow to."""
        return budgets(self.ceiling)[0]

    @property
    def takes_images(self) -> bool:
        return takes_images(self.serve)

    def temperature(self, is_coding: bool) -> float | None:
        """The serve's own, else 0 for a client that edits code; None: whatever the engine does."""
        return self.serve.tuning.sampling.get("temperature", 0 if is_coding else None)


def takes_images(serve: Serve) -> bool:
    return not _IMAGES.isdisjoint(serve.modalities)


def budgets(ceiling: int | None) -> tuple[int | None, int]:
    """Tokens that a client's prompts may grow to (the recommended client context), and tokens of one reply.

    The rule: the reply gets a quarter of the ceiling, at most 32,768; the prompt gets the rest, rounded down to a
    multiple of 1,024 because clients count only roughly (below 4,096 it is not rounded: little enough is left).
    Together they are never more than the ceiling. Without a known ceiling: unknown, and 4,096.
    """
    if ceiling is None:
        return None, ASSUMED_OUTPUT
    output = max(min(ceiling // 4, MAX_OUTPUT), 1)
    rest = ceiling - output
    return rest - rest % STEP if ceiling >= 4 * STEP else rest, output


def read_root(text: str) -> str:
    """A public address as it was typed, with or without `/v1`. Raises UsageError with what is accepted."""
    try:
        url = urlsplit(text)
        is_plain = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_plain = False
    if not is_plain or not text.isprintable() or re.search(r"[\s<>\"'\\`]", text):
        raise UsageError(f"--base-url {text!r}: write http(s)://HOST[:PORT][/PREFIX], with or without /v1")
    if "@" in url.netloc or url.query or url.fragment:
        raise UsageError("--base-url: leave out user, password, query and fragment; give the key with --key-env")
    return text.rstrip("/").removesuffix("/v1").rstrip("/")


def key_of(front_door: ListenSettings, variable: str | None) -> ClientKey:
    """The variable with the key: `variable`, else that of the first key. Raises UsageError."""
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise UsageError("--key-env: give the name of a variable (letters, digits, _), never the key itself")
    is_needed = variable is not None or front_door.auth is True or (front_door.auth is None and bool(front_door.keys))
    keys = front_door.keys if front_door.auth is not False else ()
    source = keys[0].value.source if keys else ""
    kind, _, place = source.partition(":")
    own = place if kind == "env" and _VARIABLE.fullmatch(place) else DEFAULT_VARIABLE
    return ClientKey(variable or own, is_needed, source)


def with_all_aliases(settings: Settings) -> tuple[Serve, ...]:
    """The serves with the aliases of `[alias]` as the file has them: of those for several serves, with the first."""
    owners = {name: serve.name for serve in settings.serves for name in serve.names()}
    first = {choice.name: owners.get(choice.serves[0], "") for choice in settings.alias_choices}
    return with_aliases(settings.serves, first | {alias.name: alias.serve for alias in settings.aliases})


def choose_serve(
    serves: Sequence[Serve], wanted: str | None, where: str, tasks: Sequence[str] = ()
) -> tuple[Serve, str]:
    """A serve and its model id: the requested one, else the first production serve with a chat dialect.

    `tasks`: names that clients may use besides serves. Raises UsageError, which lists the models and names the nearest.
    """
    if wanted is None:
        for serve in serves:
            if serve.status is Status.PRODUCTION and not serve.dialects.isdisjoint(TARGETS):
                return serve, serve.name
        names = ", ".join(serve.name for serve in serves) or "none"
        text = f"no serve of {where} has status production and speaks a chat dialect; choose one with --model: {names}"
        raise UsageError(text, code="unknown_serve")
    found = Names(serves).find(wanted)
    if found is None:
        known = [*(name for serve in serves for name in serve.names()), *tasks]
        raise UsageError(f"there is no model '{wanted}' in {where}{suggestion(wanted, known)}", code="unknown_serve")
    return found, wanted


def helper_serve(settings: Settings, main: Serve, helper_name: str) -> Serve | None:
    """The serve for the small requests of an agent that asks for `helper_name`; None: the main model answers them.

    1. the serve that the name already means  2. the cheapest local tier, if it converses and loading it cannot swap
    the main model out
    """
    if helper_name and (named := Names(settings.serves).find(helper_name)):
        return None if named == main else named
    if settings.router is None:
        return None
    serves = {serve.name: serve for serve in settings.serves}
    tiers = [serves[tier.serve] for tier in settings.router.local_tiers if tier.serve in serves]
    cheapest = next((serve for serve in tiers if not serve.dialects.isdisjoint(TARGETS)), None)
    if cheapest is None or cheapest == main or cheapest.needs_force:
        return None
    is_shared = share_slot(main.slot, cheapest.slot)
    slot = settings.slot(main.slot)
    is_roomy = is_shared and slot is not None and slot.memory is not None
    return None if is_shared and not is_roomy else cheapest


def common_serve(router: RouterSettings, serves: Sequence[Serve], wanted: str) -> Serve | None:
    """What a client can rely on whichever tier is chosen; None: the name is not for routing.

    The smallest context that is known, so that a prompt which fits leaves every tier in the choice; what all of them
    take in and speak. Tiers that the file does not let serve the class are not asked.
    """
    if wanted not in router.names:
        return None
    task_class = router.names[wanted]
    by_name = {serve.name: serve for serve in serves}
    tiers = [tier for tier in router.tiers if tier.serve in by_name and _may_serve(router, tier, task_class)]
    found = [by_name[tier.serve] for tier in tiers] or list(serves[:1])
    contexts = [serve.context for serve in found if serve.context is not None]
    return Serve(
        f"{AUTO}:{task_class}" if task_class else AUTO,
        context=min(contexts, default=None),
        modalities=tuple(one for one in found[0].modalities if all(one in serve.modalities for serve in found)),
        dialects=frozenset.intersection(*(serve.dialects for serve in found)),
    )


def _may_serve(router: RouterSettings, tier: Tier, task_class: str) -> bool:
    return any(router.permits(tier, name) for name in ([task_class] if task_class else router.known))


def suggestion(word: str, known: Sequence[str]) -> str:
    """`; did you mean 'x'? known: x, y`: the nearest one if one is near, and always the list."""
    near = nearest(word, known, cutoff=0.5)
    hint = f"; did you mean '{near}'?" if near else ";"
    return f"{hint} known: {', '.join(dict.fromkeys(known)) or 'none'}"


def address_warnings(front_door: ListenSettings, root: str) -> list[str]:
    """Settings of the front door that would refuse requests to this address."""
    url = urlsplit(root)
    found = []
    try:
        AccessControl(dataclasses.replace(front_door, keys=())).admit(
            {b"host": url.netloc.encode("idna" if not url.netloc.isascii() else "ascii")}, False
        )
    except ClientError as refused:
        if refused.code == "foreign_host":  # a missing key is what `admit` ends with otherwise
            found.append(
                f"front_door.allowed_hosts does not have '{url.hostname}': add it, unless a proxy rewrites Host"
            )
    if url.path and url.path not in front_door.prefixes:
        found.append(f"front_door.prefixes does not have '{url.path}': add it, unless a proxy removes it")
    return found
