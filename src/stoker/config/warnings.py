"""What is allowed but probably not meant. Reads the file system: do weights exist, and who can read secret files?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from stoker.blocking import StillBlocked, each_waited_for
from stoker.config.local_address import is_loopback
from stoker.config.paths import absolute
from stoker.config.secret_words import is_secret_variable, secret_words
from stoker.config.sections import SHIPPED, extension_secrets
from stoker.domain.access import Settings
from stoker.domain.cluster import runs_here
from stoker.domain.figures import counted
from stoker.domain.nearest import nearest
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Driver, FallbackCause, Secret, Serve, ServeIdentity, Slot, slots_of
from stoker.domain.task import CLASSES
from stoker.domain.tier import Cost, Tier
from stoker.domain.units import show_size
from stoker.engines.record import Weights
from stoker.engines.registry import GENERIC, engine_of
from stoker.extensions import is_usable, missing_because
from stoker.request.accept.tls import WARN_DAYS, load_certificate

_EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")
LOOKED_FOR = 3.0
"""Seconds for which weights are looked for, once per folder."""


def warnings(settings: Settings) -> list[str]:
    """One sentence for each finding, in the order of the file. None contains a secret."""
    found = [*settings.renamed_keys, *_door(settings), *_secret_files(settings), *_certificate(settings)]
    found += _slots(settings)
    missing = missing_weights(settings)
    for serve in settings.serves:
        texts = [*([missing[serve.name]] if serve.name in missing else []), *_serve(serve)]
        found += [f"serve '{serve.name}': {text}" for text in texts]
    found += _fallbacks(settings)
    if settings.router is not None:
        found += _routing(settings.router, settings.serves)
    found += _missing_extensions(settings)
    if not settings.serves and not settings.names_in("edge"):
        found.append("there is no [[serve]], so there is no model to ask for; `stoker init` writes an example")
    return found


def _missing_extensions(settings: Settings) -> Iterator[str]:
    """Tables that an extension reads which cannot be used."""
    tables = (("[[tier]]", "auto", settings.router), ("[cluster.NAME]", "ray", settings.clusters))
    for table in settings.unread:
        yield f"[{table}] has no effect: it needs the extension {SHIPPED[table]}, {missing_because(SHIPPED[table])}"
    for table, extension, value in tables:
        if value and not is_usable(extension):
            yield f"{table} has no effect: it needs the extension {extension}, {missing_because(extension)}"


def _door(settings: Settings) -> Iterator[str]:
    door = settings.front_door
    if door.auth is False and door.keys:
        yield 'front_door: auth = "none" admits everybody; the keys are not checked'
    if door.auth is False and not is_loopback(door.host):
        yield (
            f'front_door: auth = "none" on {door.host}: anyone who reaches the port can do everything, '
            "`/admin` included"
        )
    if door.trusted_proxies and door.auth is not True and not door.keys:
        yield (
            "front_door: `trusted_proxies` and no keys: anyone who reaches the proxy can do everything, `/admin` "
            'included; set auth = "keys", and make keys with `stoker keys create`'
        )
    if door.host in _EVERY_ADDRESS and not door.allowed_hosts:
        yield (
            f"front_door: host {door.host} and no `allowed_hosts`: requests that name this machine by anything but "
            "a loopback name are refused; list its names there"
        )


def _secret_files(settings: Settings) -> Iterator[str]:
    secrets: list[Secret] = [key.value for key in settings.front_door.keys]
    secrets += [serve.key for serve in settings.serves if serve.key]
    secrets += extension_secrets(settings).values()
    secrets += [cluster.token for cluster in settings.clusters]
    directory = Path(settings.source).parent
    for source in dict.fromkeys(secret.source for secret in secrets):
        path = absolute(source.removeprefix("file:"), directory)
        if source.startswith("file:") and path.exists() and path.stat().st_mode & 0o077:
            yield f"{source}: other users of this machine can read or change this file; type `chmod 600 {path}`"


def _certificate(settings: Settings) -> Iterator[str]:
    tls = settings.front_door.tls
    if tls is None:
        return
    if Path(tls.key).stat().st_mode & 0o077:
        yield f"{tls.key}: other users of this machine can read or change this key; type `chmod 600 {tls.key}`"
    days = load_certificate(tls, time.time()).days_left(time.time())
    if days < WARN_DAYS:
        left = counted(round(days), "day")
        yield f"{tls.cert} expires in {left}: renew it; Stoker takes the new file without a restart"


def _slots(settings: Settings) -> Iterator[str]:
    users: dict[str, list[int]] = {}
    for place, slot in enumerate(settings.slots):
        for device in dict.fromkeys(slot.devices):
            users.setdefault(device, []).append(place)
    both = sorted((pair, device) for device, places in users.items() for pair in combinations(places, 2))
    for (first, second), device in both:
        yield (
            f"slots '{settings.slots[first].name}' and '{settings.slots[second].name}' both use device {device}: "
            "neither knows what the other has loaded"
        )
    members_of: dict[str, list[Serve]] = {}
    for serve in settings.serves:
        for name in dict.fromkeys(slots_of(serve.slot or "")):
            members_of.setdefault(name, []).append(serve)
    for slot in settings.slots:
        members = members_of.get(slot.name, [])
        yield from _idle_serve(slot, members)
        if slot.together:
            yield from _together(slot, members)
            continue
        pinned = [serve.name for serve in members if serve.keep_loaded]
        if pinned and len(members) > 1 and slot.memory is None:
            yield (
                f"slot '{slot.name}' holds one serve at a time and '{pinned[0]}' stays loaded: "
                "the others in the slot can never run; give the slot `memory`, or remove keep_loaded"
            )
        preloaded = [serve.name for serve in members if serve.preload]
        if len(preloaded) > 1 and slot.memory is None:
            yield (
                f"slot '{slot.name}' holds one serve at a time: of those with preload, only '{preloaded[0]}' is loaded "
                "at the start; give the slot `memory`, or remove the others' preload"
            )


def _idle_serve(slot: Slot, members: Sequence[Serve]) -> Iterator[str]:
    """Why the slot never returns to its `idle_serve`. Other warnings say what can never run without `memory`."""
    target = next((serve for serve in members if serve.name == slot.idle_serve), None)
    if target is None:
        return
    never = f"slot '{slot.name}' never returns to '{target.name}', its idle_serve, because"
    if target.needs_force:
        reason = f" ({target.reason})" if target.reason else ""
        yield f"{never} its status is {target.status.value}{reason}; change its `status`, or name another serve"
    pinned = [serve for serve in members if serve.keep_loaded and serve is not target]
    needed = sum(serve.memory or 0 for serve in (target, *pinned))
    if pinned and slot.memory is not None and needed > slot.memory:
        names, stay = _quoted(serve.name for serve in pinned), "stays" if len(pinned) == 1 else "stay"
        yield (
            f"{never} it does not fit beside {names}, which {stay} loaded; give the slot more `memory`, or remove "
            "keep_loaded"
        )


def _together(slot: Slot, members: Sequence[Serve]) -> Iterator[str]:
    pinned = {serve.name for serve in members if serve.keep_loaded}
    for serve in members:
        if not slot.allows({serve.name} | pinned):
            yield (
                f"slot '{slot.name}': '{serve.name}' can never run, because {_quoted(pinned)} stays loaded and no set "
                "of `together` has both; add a set with both, or remove keep_loaded"
            )
    preloaded = {serve.name for serve in members if serve.preload or serve.keep_loaded}
    if not slot.allows(preloaded):
        yield (
            f"slot '{slot.name}': no set of `together` has all serves that are loaded at the start "
            f"({_quoted(preloaded)}), so some of them are not; add such a set, or remove a preload"
        )
    sizes = {serve.name: serve.memory or 0 for serve in members}
    for group in slot.together:
        needed = sum(sizes[name] for name in group)
        if slot.memory is not None and needed > slot.memory:
            yield (
                f"slot '{slot.name}': {_quoted(group)} need {show_size(needed)}, and the slot has "
                f"{show_size(slot.memory)}: they are never all loaded at the same time"
            )


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"'{name}'" for name in sorted(names))


def _fallbacks(settings: Settings) -> Iterator[str]:
    by_name = {serve.name: serve for serve in settings.serves}
    slots = {slot.name: slot for slot in settings.slots}
    for serve in settings.serves:
        fallback = by_name.get(serve.fallback or "")
        if fallback is None:
            continue
        theirs = slots_of(fallback.slot or "")
        shared = [slots[name] for name in slots_of(serve.slot or "") if name in slots and name in theirs]
        slot = next((slot for slot in shared if not slot.can_hold((serve.name, str(serve.fallback)))), None)
        if slot is None:
            continue
        if FallbackCause.BUSY in serve.fallback_on:
            yield (
                f"serve '{serve.name}': when it is busy, its fallback '{serve.fallback}' has to swap it out, because "
                f"slot '{slot.name}' holds one serve at a time; give the slot `memory`, or another one to the fallback"
            )


def missing_weights(settings: Settings) -> dict[str, str]:
    """Of each serve whose weights are not there, by name, what comes of it."""
    paths = {serve.name: Path(serve.model) for serve in serves_with_weights(settings)}
    looked = each_waited_for([(f"the folder {path.parent}", path.exists) for path in paths.values()], LOOKED_FOR)
    found = {}
    for (name, path), is_there in zip(paths.items(), looked, strict=True):
        if isinstance(is_there, StillBlocked):
            found[name] = f"{is_there}: its file system does not answer, and switching to it is refused until it does"
        elif not is_there or isinstance(is_there, Exception):
            link = f" are a link to {path.readlink()}, which does not exist" if path.is_symlink() else " do not exist"
            found[name] = f"the weights {path}{link}; switching to it is refused until they do"
    return found


def _serve(serve: Serve) -> Iterator[str]:
    if serve.max_active > serve.parallel:
        yield (
            f"max_active {serve.max_active} is above parallel {serve.parallel}: "
            "the engine queues requests that Stoker could order and cancel"
        )
    if serve.driver is Driver.EXTERNAL:
        return
    if serve.keep_loaded and serve.idle_unload is not None:
        yield "keep_loaded overrides idle_unload: it is never unloaded"
    if serve.identity is ServeIdentity.NONE and engine_of(serve.engine) is not GENERIC:
        yield f'engine {serve.engine} lists its models, and identity "none" does not look: remove `identity`'
    if serve.keep_loaded and serve.preload:
        yield "keep_loaded includes preload: remove preload"
    if not is_loopback(serve.host):
        yield f"host {serve.host}: other machines can reach the engine directly, without the front door and its keys"
    for name in serve.env:
        if is_secret_variable(name):
            yield f"env.{name} looks like a secret in the configuration file; keep the file at mode 0600"
    for words in (serve.cmd or (), serve.extra_args, serve.stop or ()):
        for option in secret_words(words).values():
            yield f"the value of {option} is a secret in the configuration file: give it as `key` and write {{key}}"


def _routing(router: RouterSettings, serves: Sequence[Serve]) -> Iterator[str]:
    by_name = {serve.name: serve for serve in serves}
    for tier in router.tiers:
        yield from (f"tier '{tier.name}': {text}" for text in _tier(tier, by_name[tier.serve]))
    for first, second in pairwise(router.tiers):
        if _is_dearer(first.cost, second.cost):
            yield (
                f"tier '{first.name}' costs more than '{second.name}', which is listed after it: "
                "tiers are tried in this order; list the cheaper one first"
            )
    for one in router.classes:
        if one.name not in CLASSES and (near := nearest(one.name, CLASSES, cutoff=0.85)):
            yield f"router.class '{one.name}' is a new class; did you mean the built-in class '{near}'?"
    unserved = [name for name in router.known if not any(router.permits(tier, name) for tier in router.tiers)]
    if unserved:
        yield f"router: no tier may serve {', '.join(unserved)}; requests of these classes are refused"
    if not router.high_risk:
        yield "router: high_risk is empty: a local tier may serve every class without having been measured"
    if router.shadow.judge and not router.shadow.rate:
        yield "router.shadow: `judge` is set, but `rate` is 0, so nothing is graded; 0.05 grades one answer in 20"
    if router.classifier is not None:
        yield from _classifier(by_name[router.classifier.serve], router.allow_cloud)


def _classifier(serve: Serve, allow_cloud: bool) -> Iterator[str]:
    if serve.translation.cloud and not allow_cloud:
        yield f"router.classifier: '{serve.name}' is a cloud, but `allow_cloud` is false, so it is never used"
    if serve.driver is not Driver.EXTERNAL and not serve.keep_loaded:
        yield (
            f"router.classifier: '{serve.name}' is not loaded for this, so it classifies only while it runs for "
            "other requests; `keep_loaded = true` keeps it loaded"
        )


def _tier(tier: Tier, serve: Serve) -> Iterator[str]:
    if tier.is_assumed_local:
        yield (
            f"{serve.base_url} is on this machine or in a private network, so this is a local tier: it has to be "
            "measured before it serves high-risk classes, and its answers are checked; set `cloud = true` to make it a "
            "cloud, or `cloud = false` to confirm that it is local"
        )
    if serve.needs_force:
        yield f"its serve '{serve.name}' is {serve.status.value}; it starts only with --force"
    url = urlsplit(serve.base_url or "")
    is_open = url.scheme == "http" and not is_loopback(url.hostname or "")
    if serve.from_tier and serve.key is not None and is_open:
        yield f"{serve.base_url} is not encrypted: the key and the prompts can be read on the way; use https"


def _is_dearer(cost: Cost, other: Cost) -> bool:
    """Whether it costs more for input or output, and less for neither."""
    return cost != other and cost.input >= other.input and cost.output >= other.output


def serves_with_weights(settings: Settings) -> list[Serve]:
    """Those for which Stoker gives an engine on this machine the GGUF file that the configuration names."""
    return [
        serve
        for serve in settings.serves
        if engine_of(serve.engine).weights is Weights.GGUF
        and serve.model
        and (serve.cmd is None or any("{model}" in word for word in serve.cmd))
        and serve.source is None
        and serve.driver is not Driver.EXTERNAL
        and runs_here(serve, settings.slots)
    ]
