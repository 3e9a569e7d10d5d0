"""What works and is probably not meant. Reads the file system for weights and for the mode of secret files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from stoker.config.local_address import is_loopback
from stoker.config.paths import absolute
from stoker.domain.access import Settings
from stoker.domain.nearest import nearest
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Driver, Secret, Serve
from stoker.domain.task import CLASSES
from stoker.domain.tier import Cost, Tier

_SECRET_VARIABLE = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|KEY)($|_)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--?(.*[-_])?(token|secret|password|key)", re.IGNORECASE)
_EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")


def warnings(settings: Settings) -> list[str]:
    """One sentence each, in the order of the file; empty when there is nothing to say. No secret in any."""
    found = [*_door(settings), *_secret_files(settings), *_slots(settings)]
    for serve in settings.serves:
        found += [f"serve '{serve.name}': {text}" for text in _serve(serve)]
    if settings.router is not None:
        found += _routing(settings.router, settings.serves)
    if not settings.serves:
        found.append("there is no [[serve]]: nothing can be asked for; `stoker init` shows what one looks like")
    return found


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name mostly holds a secret."""
    return _SECRET_VARIABLE.search(name) is not None


def is_secret_option(option: str) -> bool:
    """Whether the value of this command line option is mostly a secret: `--api-key`, `--hf-token`."""
    return _SECRET_OPTION.fullmatch(option) is not None


def secret_words(words: Sequence[str]) -> dict[int, str]:
    """Which words of a command line hold a secret, and the option that says so: `--api-key X`, `--hf-token=X`.

    A value with a placeholder (`{key}`) is no secret.
    """
    found: dict[int, str] = {}
    for index, word in enumerate(words):
        option, has_value, value = word.partition("=")
        if not is_secret_option(option):
            continue
        at = index if has_value else index + 1
        if at < len(words) and "{" not in (value if has_value else words[at]):
            found[at] = option
    return found


SHORTEST_SECRET = 8
"""Characters: a shorter value is found in too much that is none."""


def secrets_of(serve: Serve) -> Iterator[str]:
    """Values in a serve's own settings that are secrets by their name: of its environment and its command lines."""
    values = [value for name, value in serve.env.items() if is_secret_variable(name)]
    for words in (serve.cmd or (), serve.extra_args, serve.up or ()):
        values += [
            words[at].partition("=")[2] if words[at].startswith("-") else words[at] for at in secret_words(words)
        ]
    yield from (value for value in values if len(value) >= SHORTEST_SECRET)


def _door(settings: Settings) -> Iterator[str]:
    door = settings.front_door
    if not door.auth and door.keys:
        yield 'front_door: auth = "none" lets everybody in; the keys are not asked for'
    if not door.auth and not is_loopback(door.host):
        yield f'front_door: auth = "none" on {door.host}: who reaches the port may do everything, `/admin` included'
    if door.host in _EVERY_ADDRESS and not door.allowed_hosts:
        yield (
            f"front_door: host {door.host} and no `allowed_hosts`: requests that name this machine otherwise than "
            "as loopback are refused; list its names"
        )


def _secret_files(settings: Settings) -> Iterator[str]:
    secrets: list[Secret] = [key.value for key in settings.front_door.keys]
    secrets += [serve.key for serve in settings.serves if serve.key]
    directory = Path(settings.source).parent
    for source in dict.fromkeys(secret.source for secret in secrets):
        path = absolute(source.removeprefix("file:"), directory)
        if source.startswith("file:") and path.exists() and path.stat().st_mode & 0o077:
            yield f"{source}: other users of this machine may use this file; `chmod 600` it"


def _slots(settings: Settings) -> Iterator[str]:
    for first, second in combinations(settings.slots, 2):
        for device in sorted(set(first.devices) & set(second.devices)):
            yield (
                f"slots '{first.name}' and '{second.name}' both have device {device}: "
                "neither knows what the other one has loaded"
            )
    for slot in settings.slots:
        members = [serve for serve in settings.serves if serve.slot == slot.name]
        pinned = [serve.name for serve in members if serve.keep_loaded]
        if pinned and len(members) > 1 and slot.memory is None:
            yield (
                f"slot '{slot.name}' holds one serve at a time and '{pinned[0]}' stays loaded: "
                "the others in it can never run; give the slot `memory`, or take keep_loaded out"
            )


def _serve(serve: Serve) -> Iterator[str]:
    if serve.max_active > serve.parallel:
        yield (
            f"max_active {serve.max_active} is above parallel {serve.parallel}: "
            "the engine queues what Stoker could queue in order and cancel"
        )
    if serve.driver is Driver.EXTERNAL:
        return
    if _needs_weights(serve) and not Path(serve.model).exists():
        yield f"the weights {serve.model} are not there: a switch to it will be refused until they are"
    if serve.keep_loaded and serve.idle_unload is not None:
        yield "keep_loaded wins over idle_unload: it is never unloaded"
    if not is_loopback(serve.host):
        yield f"host {serve.host}: the engine can be reached from other machines, past the front door and its keys"
    for name in serve.env:
        if is_secret_variable(name):
            yield f"env.{name} looks like a secret and stands in the file itself: keep the file at mode 0600"
    for words in (serve.cmd or (), serve.extra_args):
        for option in secret_words(words).values():
            yield f"the value of {option} stands in the file itself: give it as `key` and write {option} {{key}}"


def _routing(router: RouterSettings, serves: Sequence[Serve]) -> Iterator[str]:
    by_name = {serve.name: serve for serve in serves}
    for tier in router.tiers:
        yield from (f"tier '{tier.name}': {text}" for text in _tier(tier, by_name[tier.serve]))
    for first, second in pairwise(router.tiers):
        if _is_dearer(first.cost, second.cost):
            yield (
                f"tier '{first.name}' costs more than '{second.name}', which stands after it: "
                "tiers are tried from the first to the last; put the cheaper one first"
            )
    for one in router.classes:
        if one.name not in CLASSES and (near := nearest(one.name, CLASSES, cutoff=0.85)):
            yield f"router.class '{one.name}' is a class of its own; the built-in one is called '{near}'"
    unserved = [name for name in router.known if not any(router.permits(tier, name) for tier in router.tiers)]
    if unserved:
        yield f"router: no tier may serve {', '.join(unserved)}: requests of these classes are refused"
    if not router.high_risk:
        yield "router: high_risk is empty: a local tier of which nothing was measured may serve every class"
    if router.shadow.judge and not router.shadow.rate:
        yield "router.shadow: `judge` is set and `rate` is 0: nothing is graded; `rate = 0.05` grades every 20th answer"
    if router.classifier is not None:
        yield from _classifier(by_name[router.classifier.serve], router.allow_cloud)


def _classifier(serve: Serve, allow_cloud: bool) -> Iterator[str]:
    if serve.translation.cloud and not allow_cloud:
        yield f"router.classifier: '{serve.name}' is a cloud, and `allow_cloud` is false: it is never asked"
    if serve.driver is not Driver.EXTERNAL and not serve.keep_loaded:
        yield (
            f"router.classifier: no question loads '{serve.name}', so it has a say only while it runs for something "
            "else; `keep_loaded = true` has it there"
        )


def _tier(tier: Tier, serve: Serve) -> Iterator[str]:
    if tier.is_assumed_local:
        yield (
            f"{serve.base_url} is on this machine or in a private network, so it is no trusted cloud any more: it is "
            "measured like any local tier, its answers are checked, and at high risk it serves what it was measured "
            "to be good at; `cloud = true` makes it a cloud as before, `cloud = false` says that this is meant"
        )
    if serve.needs_force:
        yield f"its serve '{serve.name}' is {serve.status.value}: it is never started without --force"
    url = urlsplit(serve.base_url or "")
    is_open = url.scheme == "http" and not is_loopback(url.hostname or "")
    if serve.from_tier and serve.key is not None and is_open:
        yield f"{serve.base_url} is not encrypted: who is on the way reads the key and the prompts"


def _is_dearer(cost: Cost, other: Cost) -> bool:
    """In one of the two, and cheaper in none."""
    return cost != other and cost.input >= other.input and cost.output >= other.output


def _needs_weights(serve: Serve) -> bool:
    is_told = serve.cmd is None or any("{model}" in word for word in serve.cmd)
    return serve.engine == "llama.cpp" and bool(serve.model) and is_told and serve.source is None
