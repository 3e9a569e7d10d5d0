"""Converts llama-swap's configuration: the document to write, and a report of every key."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from stoker.config.secrets import SHORTEST_KEY
from stoker_import.imported import ImportedConfig, KeyOutcome, KeyReport
from stoker_import.llama_swap.coexistence import Coexistence, plan_slots
from stoker_import.llama_swap.macros import DEFAULT_PROXY, expand_macros
from stoker_import.llama_swap.models import ConvertedModel, ImportContext, convert_model, request_table
from stoker_import.llama_swap.settings import (
    LOCAL,
    LlamaSwapSettings,
    Peer,
    Selector,
    address_of,
    read_settings,
)
from stoker_import.llama_swap.sources import SourceFile, read_sources
from stoker_import.secret_words import SecretStore

CARRIED, CHANGED, DROPPED = KeyOutcome.CARRIED, KeyOutcome.CHANGED, KeyOutcome.DROPPED
IGNORED, FAILED = KeyOutcome.IGNORED, KeyOutcome.FAILED
PORT = 8080
"""Where llama-swap listens if its command line does not say otherwise."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENGINE_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Secrets that engines download models with."""
_DROPPED: Mapping[str, str] = {
    "logLevel": "Stoker has one level of log",
    "logTimeFormat": "Stoker's log has one form of time",
    "logToStdout": "each serve has a log of its own: stoker serves logs NAME",
    "logRequests": "every request is on record: stoker decisions",
    "metricsMaxInMemory": "the newest 10,000 decisions are kept on disk: paths.decisions",
    "store": "decisions are kept on disk in any case: paths.decisions",
    "captureBuffer": "Stoker keeps no requests and no answers",
    "ui": "Stoker has no sessions",
    "performance": "stoker top, and /metrics, show the memory of devices",
    "startPort": "each start gets a free port",
    "profiles": "use [alias.NAME] serve = \"...\", change it, and type stoker reload",
    "tailcat": "Stoker has no such network of its own",
}  # fmt: skip


def command_llama_swap(
    files: Sequence[SourceFile], environment: Mapping[str, str], working_directory: Path, target_directory: Path,
    port: int | None = None,
) -> ImportedConfig:  # fmt: skip
    """Convert a configuration.

    `environment`: the variables that llama-swap sees. `working_directory`: where it was started, which relative paths
    refer to. `target_directory`: where the configuration will be. `port`: Stoker's; None: llama-swap's default, or the
    next that no server of the file has. Raises ConfigError where llama-swap itself would refuse the files.
    """
    source = read_sources(files, environment)
    expanded = expand_macros(source.content)
    settings = read_settings(expanded.content)
    slots = plan_slots(settings)
    secrets = SecretStore(source.variables)
    names = _serve_names(settings)
    port = port or _free_port(settings)
    context = ImportContext(
        names, expanded.ports, secrets, working_directory, target_directory, _inherited(environment),
        settings.health_check_timeout, settings.sends_loading_state,
    )  # fmt: skip
    models = [convert_model(model, context) for model in settings.models.values()]
    _add_slots(models, slots, settings)
    models += _peer_models(settings, secrets, set(names.values()))
    good = [model for model in models if not model.has_failed]
    aliases, alias_rows = _aliases(settings, {model.id: model.name for model in good})
    document: dict[str, Any] = {
        "front_door": _front_door(settings, secrets, port),
        "compat": {
            "llama_swap": True,
            "any_upstream_path": True,
            "upstream_ignore": list(settings.ignored_upstream_paths),
        },
    }
    if tables := dict(_slot_tables(slots, good, names)):
        document["slots"] = tables
    if aliases:
        document["alias"] = aliases
    document["serve"] = [model.table for model in good]
    rows = [*_file_rows(settings, slots, source.content, port), *alias_rows, *settings.ignored]
    return ImportedConfig(
        document,
        (*rows, *(row for model in models for row in model.rows)),
        tuple(secrets.files),
        (
            f"Imported from llama-swap: {', '.join(file.name for file in files)}.",
            "Check it: stoker config check. Every key: docs/reference/configuration.md",
            "Engines inherit Stoker's environment but for keys and tokens: name in `inherit_env` those that they need.",
        ),
    )


def _inherited(environment: Mapping[str, str]) -> list[str]:
    """llama-swap hands its whole environment down."""
    return ["*", *(name for name in _ENGINE_SECRETS if name in environment)]


def _serve_names(settings: LlamaSwapSettings) -> dict[str, str]:
    """A name for each serve: the model's id if it is plain, else one made of it."""
    taken = set(settings.models)
    names: dict[str, str] = {}
    for model, given in settings.models.items():
        if given.is_variant_of_itself:  # its id is the name of a variant
            names[model] = plain_name(f"{model}-base", taken)
            taken.add(names[model])
            continue
        if _NAME.fullmatch(model) and not model.startswith("auto"):
            names[model] = model
            continue
        names[model] = plain_name(model, taken)
        taken.add(names[model])
    return names


def plain_name(text: str, taken: set[str]) -> str:
    """A name that no other serve has."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:56] or "model"
    if name.startswith("auto"):
        name = f"model-{name}"
    return next(one for one in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))) if one not in taken)


def _add_slots(models: Sequence[ConvertedModel], slots: Coexistence, settings: LlamaSwapSettings) -> None:
    costs = settings.matrix.costs if settings.matrix is not None else {}
    preloaded = {settings.real_name(name) for name in settings.preload}
    for model in models:
        if "base_url" in model.table:
            continue
        slot = slots.slot_of(model.id)
        if slot is not None:
            model.table["slot"] = slot
        if model.id in slots.one_port:
            note = "shares its one port with another model, so they take turns"
            model.add("proxy", CHANGED, f'slot = "{slot}"', note)
        if costs and slot is not None:
            model.table["evict_cost"] = costs.get(model.id, 1)
        if model.id in preloaded:
            model.table["preload"] = True


def _slot_tables(
    slots: Coexistence, good: Sequence[ConvertedModel], names: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    present = {model.id for model in good}
    for slot in slots.slots:
        if present.isdisjoint(slot.models):
            continue
        sets = [[names[model] for model in one if model in present] for one in slot.together]
        together = [one for one in sets if len(one) > 1]
        yield slot.name, {"together": together} if together else {"devices": []}


def _peer_models(settings: LlamaSwapSettings, secrets: SecretStore, taken: set[str]) -> Iterator[ConvertedModel]:
    """A name that several peers have means the first one's, as in llama-swap; a model's own name goes first."""
    owned: set[str] = set()
    for peer in settings.peers.values():
        for model in peer.models:
            is_first = model not in owned and settings.real_name(model) is None
            owned.add(model)
            yield _peer_model(peer, model, is_first, secrets, taken)


def _peer_model(peer: Peer, model: str, is_first: bool, secrets: SecretStore, taken: set[str]) -> ConvertedModel:
    full = f"{peer.id}/{model}"
    found = ConvertedModel(full, plain_name(full, taken))
    taken.add(found.name)
    url = peer.proxy.rstrip("/")
    if address_of(url) is None or urlsplit(url).scheme not in ("http", "https"):
        found.add(f"peers.{peer.id}.proxy", FAILED, "", "is no http address")
        return found
    found.table |= {"name": found.name, "base_url": url if url.endswith("/v1") else f"{url}/v1", "served_name": model}
    found.table["aliases"] = [full, model] if is_first else [full]
    if peer.key:
        found.table["key"] = secrets.reference(peer.key, peer.id)
    note = "" if is_first else f"'{model}' alone means another model, as in llama-swap"
    found.add(f"peers.{peer.id}.models", CARRIED, f'base_url = "{found.table["base_url"]}"', note)
    if request := {key: value for key, value in request_table(peer.filters, found, "filters.").items() if value}:
        found.table["request"] = request
    return found


def _free_port(settings: LlamaSwapSettings) -> int:
    """llama-swap's own default, unless a server of the file listens there: llama-swap was told another port then."""
    urls = [model.proxy for model in settings.models.values() if model.proxy != DEFAULT_PROXY]
    addresses = [address_of(url) for url in (*urls, *(peer.proxy for peer in settings.peers.values()))]
    taken = {address[1] for address in addresses if address is not None and address[0] in LOCAL}
    return next(port for port in range(PORT, PORT + len(taken) + 1) if port not in taken)


def _front_door(settings: LlamaSwapSettings, secrets: SecretStore, port: int) -> dict[str, Any]:
    door: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    if settings.sends_loading_state:
        door["loading"] = "reasoning"
    if not settings.lists_aliases and "includeAliasesInList" in settings.given:
        door["list_aliases"] = False
    if settings.keys:
        door["keys"] = [
            {"name": f"llama-swap-{place}", "value": _key_reference(key, place, secrets), "scope": "admin"}
            for place, key in enumerate(settings.keys, start=1)
        ]
    return door


def _key_reference(key: str, place: int, secrets: SecretStore) -> str:
    """A key that is too short for Stoker is replaced by a new one."""
    if len(key) < SHORTEST_KEY:
        key = f"sk-{token_urlsafe(32)}"
    return secrets.reference(key, f"llama-swap-{place}")


def _aliases(settings: LlamaSwapSettings, names: Mapping[str, str]) -> tuple[dict[str, Any], list[KeyReport]]:
    found: dict[str, Any] = {}
    rows: list[KeyReport] = []
    variants = {name for model in settings.models.values() for name in model.filters.by_id}
    for selector in settings.selectors:
        targets = [_target(settings, names, target) for target in selector.targets]
        known = list(dict.fromkeys(target for target in targets if target is not None))
        where = f"selectors.{selector.id}"
        if not known:
            rows.append(KeyReport(selector.id, where, FAILED, "", "none of its targets was imported"))
            continue
        found[selector.id], row = _selector_alias(selector, known, variants)
        rows.append(row)
        dropped = sorted({"name", "description", "metadata", "unlisted"} & selector.given)
        if dropped:
            rows.append(KeyReport(selector.id, where, DROPPED, "", f"{', '.join(dropped)}: an alias has none"))
    return found, rows


def _target(settings: LlamaSwapSettings, names: Mapping[str, str], target: str) -> str | None:
    """The serve or variant that a selector's target means."""
    real = settings.real_name(target)
    if real is not None:
        model = settings.models[real]
        is_variant = target in model.filters.by_id and (target != real or model.is_variant_of_itself)
        return (target if is_variant else names[real]) if real in names else None
    peers = [f"{peer.id}/{model}" for peer in settings.peers.values() for model in peer.models
             if target in (model, f"{peer.id}/{model}")]  # fmt: skip
    return names.get(peers[0]) if peers else None


def _selector_alias(
    selector: Selector, targets: Sequence[str], variants: Collection[str]
) -> tuple[dict[str, Any], KeyReport]:
    where = f"selectors.{selector.id}"
    if selector.strategy == "pin" or len(targets) == 1:
        table: dict[str, Any] = {"serves": [targets[0]]} if targets[0] in variants else {"serve": targets[0]}
        return table, KeyReport(selector.id, where, CARRIED, f'[alias."{selector.id}"] serve = "{targets[0]}"')
    pick = "loaded" if selector.strategy == "warm" else "first"
    became = f'[alias."{selector.id}"] serves, pick = "{pick}"'
    row = KeyReport(selector.id, where, CARRIED, became)
    if selector.strategy == "spillover":
        note = "requests go to the first that can take them; Stoker counts no requests per target"
        row = KeyReport(selector.id, where, CHANGED, became, note)
    return {"serves": list(targets), "pick": pick}, row


def _file_rows(
    settings: LlamaSwapSettings, slots: Coexistence, content: Mapping[str, Any], port: int
) -> Iterator[KeyReport]:
    """Keys of the whole file."""
    note = "llama-swap listens on every address unless told otherwise; for other machines set host and keys"
    yield KeyReport("", "-listen", CHANGED, f'front_door.host = "127.0.0.1", port = {port}', note)
    given = settings.given
    if "healthCheckTimeout" in given:
        yield KeyReport("", "healthCheckTimeout", CARRIED, f'ready_timeout = "{settings.health_check_timeout}s"')
    if "globalTTL" in given:
        yield KeyReport("", "globalTTL", CARRIED, "idle_unload of each serve")
    if "unloadTimeout" in given:
        yield KeyReport("", "unloadTimeout", CARRIED, "stop_grace of each serve")
    if content.get("macros") is not None:
        yield KeyReport("", "macros", CARRIED, "", "written out")
    if "sendLoadingState" in given:
        word = "reasoning" if settings.sends_loading_state else "ping"
        yield KeyReport("", "sendLoadingState", CARRIED, f'front_door.loading = "{word}"')
    if "includeAliasesInList" in given:
        word = "true" if settings.lists_aliases else "false"
        yield KeyReport("", "includeAliasesInList", CARRIED, f"front_door.list_aliases = {word}")
    if settings.keys:
        note = 'llama-swap\'s keys may do everything; scope = "inference" is enough for asking models'
        yield KeyReport("", "apiKeys", CARRIED, "front_door.keys", note)
        for place, key in enumerate(settings.keys, start=1):
            if len(key) < SHORTEST_KEY:
                note = f"shorter than {SHORTEST_KEY} characters: replaced by a new key; give it to its clients"
                yield KeyReport("", f"apiKeys[{place - 1}]", CHANGED, f"file:keys/llama-swap-{place}", note)
    if "upstream" in given:
        yield KeyReport("", "upstream.ignorePaths", CARRIED, "compat.upstream_ignore")
    for key, reason in _DROPPED.items():
        if key in given:
            yield KeyReport("", key, DROPPED, "", reason)
    yield from _router_rows(settings, slots)
    if settings.preload:
        unknown = [name for name in settings.preload if settings.real_name(name) is None]
        yield KeyReport("", "hooks.on_startup.preload", CARRIED, "preload = true")
        for name in unknown:
            yield KeyReport("", "hooks.on_startup.preload", IGNORED, "", f"there is no model '{name}'")
    if settings.priorities:
        note = "give keys or applications a priority instead: interactive, normal or background"
        yield KeyReport("", "routing.scheduler.settings.fifo.priority", DROPPED, "", note)


def _router_rows(settings: LlamaSwapSettings, slots: Coexistence) -> Iterator[KeyReport]:
    became = ", ".join(f"[slots.{slot.name}]" for slot in slots.slots) or "serves without a slot"
    if settings.matrix is not None:
        note = "of sets that cost the same, the one with what was used last stays loaded, not the first of the file"
        yield KeyReport("", "matrix", CHANGED, became, note)
        return
    if settings.groups:
        yield KeyReport("", "groups", CARRIED, became)
    elif slots.slots:
        yield KeyReport("", "groups", CARRIED, became, "no groups: one model at a time")
    for one, other in slots.one_way:
        note = (
            f"in llama-swap loading a model of '{one}' unloads '{other}', but not the other way round; in Stoker they "
            "stay loaded together"
        )
        yield KeyReport("", f"groups.{one}", CHANGED, became, note)
