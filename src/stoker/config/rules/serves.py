"""Rules about single serves: what a serve needs, and what it must not combine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.paths import VAULT, in_vault
from stoker.config.rules.boxes import check_in_boxes
from stoker.domain.definition import KeyPath
from stoker.domain.request_parameters import RequestParameters
from stoker.domain.serve import AUTO_LAYERS, SUSPENDED, ServeIdentity, unused_keys
from stoker.engines.record import Engine, Weights
from stoker.engines.registry import engine_of, those

FILLED_IN = ("port", "model", "dir", "host", "name", "key")
OF_RANKS = ("rank", "ranks", "rendezvous_host", "rendezvous_port")
"""Filled in only in the `cmd` of an engine with one rank in each of several slots."""
_PLACEHOLDER = re.compile(r"(?<!\{)\{([a-zA-Z_]+)\}(?!\})")


def unused_in_boxes() -> tuple[str, ...]:
    """Keys without effect for a serve that is only in slots of boxes."""
    of_a_box = ("slot", "slots", "replicas", "idle_unload", "stop_grace")
    kept_there = ("model", "key", "key_header", "health", "probe", "canary")
    return *(key for key in unused_keys("base_url") if key not in of_a_box), *kept_there


def check_serves(doc: ConfigDocument, entries: list[ServeEntry]) -> None:
    """Checks each serve. An abstract one need not be complete: its children are checked instead."""
    for entry in entries:
        if entry.table.abstract:
            _check_abstract(doc, entry)
        elif doc.is_spoiled(entry.at("driver")):
            continue
        elif entry.is_external:
            _check_external(doc, entry)
        elif entry.is_in_boxes:
            check_in_boxes(doc, entry, unused_in_boxes())
        elif entry.driver == "compose":
            _check_container(doc, entry)
        else:
            _check_process(doc, entry)
    for entry in entries:
        _check_identity(doc, entry)
        _check_conflicts(doc, entry)
        _check_context(doc, entry)
        _check_choices(doc, entry)
    _check_fallbacks(doc, entries)


def _check_identity(doc: ConfigDocument, entry: ServeEntry) -> None:
    if entry.table.probe is not None and entry.table.identity != ServeIdentity.NONE and not entry.table.abstract:
        doc.problem(
            entry.at("probe"),
            f"has no effect for serve '{entry.name}': its identity is \"models\", so GET /v1/models is asked; "
            'set `identity = "none"`, or remove it',
        )


def _check_conflicts(doc: ConfigDocument, entry: ServeEntry) -> None:
    for place, name in enumerate(entry.table.conflicts):
        kind, colon, rest = name.partition(":")
        if colon and (kind not in ("unit", "container") or not rest):
            doc.problem(
                (*entry.at("conflicts"), place),
                "is not accepted: write unit:NAME, container:NAME or the name of a program",
            )


def _check_context(doc: ConfigDocument, entry: ServeEntry) -> None:
    """Memory is computed only of an engine's own command line, and only where it is made at each start."""
    table, engine = entry.table, engine_of(entry.engine)
    if not table.auto_context or table.abstract or doc.is_spoiled(entry.at("engine")):
        return
    if engine.computes_context and entry.driver == "process" and table.cmd is None:
        return
    if table.cmd is not None:
        advice = "it has a `cmd`: give the number that the command gives its engine"
    elif entry.driver != "process":
        advice = f"its driver is {entry.driver}: give the number that its engine runs with"
    else:
        advice = engine.context_advice.format(name=entry.name)
    doc.problem(
        entry.at("context"),
        f'"auto" is for {_listed(lambda engine: engine.computes_context)} that Stoker starts as a process, which '
        f"serve '{entry.name}' is not; {advice}",
    )


def _check_choices(doc: ConfigDocument, entry: ServeEntry) -> None:
    """What is chosen by the model's header is chosen at each start of a process."""
    table, tuning = entry.table, entry.table.tuning
    if table.abstract or entry.driver == "process" or doc.is_spoiled(entry.at("driver")):
        return
    chosen = (("n_cpu_moe", tuning.n_cpu_moe == AUTO_LAYERS, "a number"),
              ("speculative", tuning.speculative == "auto", '`"mtp"`, or a draft model'))  # fmt: skip
    for key, is_auto, instead in chosen:
        if is_auto:
            doc.problem(
                entry.at(key),
                f"\"auto\" is chosen when Stoker starts a process, and serve '{entry.name}' has driver {entry.driver}: "
                f"give {instead}; `stoker fit {entry.name}` says what fits",
            )


def _check_abstract(doc: ConfigDocument, entry: ServeEntry) -> None:
    for key in ("served_name", "aliases", "variant"):
        if entry.gives(doc, key):
            doc.problem(entry.at(key), "an abstract serve cannot be requested, and names are not inherited; remove it")


def _check_external(doc: ConfigDocument, entry: ServeEntry) -> None:
    if entry.lacks(doc, "base_url"):
        doc.problem(
            entry.at("driver"),
            f"serve '{entry.name}' is external and has no `base_url`; give its address",
        )
    for key in unused_keys("base_url"):
        if entry.gives(doc, key):
            doc.problem(
                entry.at(key),
                f"has no effect for serve '{entry.name}': it is external, so Stoker neither starts nor stops it; "
                "remove it, or remove `base_url`",
            )


def _check_container(doc: ConfigDocument, entry: ServeEntry) -> None:
    table, name = entry.table, entry.name
    if table.base_url is not None:
        doc.problem(entry.at("base_url"), "is for external serves, and there is a `container`; remove one of the two")
    if entry.lacks(doc, "container"):
        doc.problem(entry.at("driver"), f"serve '{name}' is a container; give its name as `container`")
    elif entry.lacks(doc, "port") and not entry.has_several_places:
        doc.problem(
            entry.at("container"),
            f"serve '{name}' needs the `port` at which its container answers on this machine",
        )
    for key in unused_keys("container"):
        if entry.gives(doc, key):
            doc.problem(
                entry.at(key),
                f"has no effect for serve '{name}': its container has its own command; remove it",
            )
    if table.sleep_level not in (None, SUSPENDED):
        doc.problem(
            entry.at("sleep_level"),
            f"{table.sleep_level} is for engines that Stoker starts itself, and a container has its own command; "
            f"{SUSPENDED} is for any engine on NVIDIA GPUs",
        )
    if table.up is not None:
        _check_words(doc, entry, "up", table.up)


def _check_process(doc: ConfigDocument, entry: ServeEntry) -> None:
    table = entry.table
    for key in ("container", "up"):
        if entry.gives(doc, key):
            doc.problem(entry.at(key), f"has no effect with driver {entry.driver}; remove one of the two")
    if entry.driver == "process" and entry.gives(doc, "unit"):
        doc.problem(entry.at("unit"), 'is for driver = "systemd"; remove it, or set the driver')
    if entry.driver == "systemd" and entry.lacks(doc, "port") and not entry.has_several_places:
        doc.problem(
            entry.at("driver"), f"serve '{entry.name}' runs as a systemd unit and needs a fixed `port`: set one"
        )
    if table.stop is not None:
        _check_stop(doc, entry, table.stop)
    _check_engine(doc, entry)
    if table.base_url is not None:
        doc.problem(entry.at("base_url"), 'is for external serves, and driver is "process"; remove one of the two')
        return
    if engine_of(entry.engine).launch is None and entry.lacks(doc, "cmd") and not doc.is_spoiled(entry.at("engine")):
        doc.problem(
            entry.at("engine"),
            f"engine {entry.engine} has no command of its own: give serve '{entry.name}' a `cmd`, "
            "or a `base_url` if something else runs it",
        )
    _check_model(doc, entry)
    if table.cmd is not None:
        _check_cmd(doc, entry, table.cmd)


def _check_model(doc: ConfigDocument, entry: ServeEntry) -> None:
    table, weights = entry.table, engine_of(entry.engine).weights
    used = table.cmd is None or any("{model}" in word for word in table.cmd)
    if doc.is_spoiled(entry.at("engine")) or doc.is_spoiled(entry.at("cmd")):
        return
    is_needed = used if weights is Weights.GGUF else table.cmd is None and weights is not Weights.ANY
    if entry.lacks(doc, "model") and is_needed:
        doc.problem(("serve", entry.index), f"serve '{entry.name}' has no `model`: {weights.value}")
    elif entry.lacks(doc, "model") and table.cmd is not None and used:
        doc.problem(entry.at("cmd"), f"uses {{model}}, but serve '{entry.name}' has no `model`")
    tuning = table.tuning
    named = (("model", table.model), ("speculative", tuning.speculative), ("mmproj", tuning.mmproj),
             *(("adapters", path) for path in tuning.adapters))  # fmt: skip
    for key, path in named:
        if path and path.startswith(VAULT):
            try:
                in_vault(path, Path("/vault"))
            except ValueError as error:
                doc.problem(entry.at(key), str(error))


def _check_stop(doc: ConfigDocument, entry: ServeEntry, stop: Sequence[str]) -> None:
    """1 systemd stops its units  2 no time to run it  3 a key that is not at hand  4 placeholders"""
    path = entry.at("stop")
    if entry.driver == "systemd":  # 1
        doc.problem(path, f"has no effect for serve '{entry.name}': systemd stops its unit; remove it")
    if entry.table.stop_grace == 0:  # 2
        doc.problem(path, "is never run: `stop_grace` is 0s; give it the time that the command needs")
    if any("{key}" in word for word in stop) and entry.gives(doc, "key"):  # 3
        doc.problem(path, "uses {key}, but the serve has a `key` of its own; read that one in the command itself")
    _check_words(doc, entry, "stop", stop, (*FILLED_IN, "pid"))  # 4


def _check_words(
    doc: ConfigDocument,
    entry: ServeEntry,
    key: str,
    cmd: Sequence[str],
    known: tuple[str, ...] = (*FILLED_IN, *OF_RANKS),
) -> bool:
    """Whether a placeholder looks misspelt; it is then reported."""
    path = entry.at(key)
    words = {word for part in cmd for word in _PLACEHOLDER.findall(part)}
    near = False
    for word in sorted(words.difference(known)):
        # Braces also occur in JSON and templates, so only near misses are reported.
        hint = doc.did_you_mean(f"{{{word}}}", [f"{{{one}}}" for one in known])
        if hint:
            near = True
            doc.problem(path, f"{{{word[:40]}}} is not filled in{hint}")
    return near


def _check_sleep_level(doc: ConfigDocument, entry: ServeEntry) -> None:
    """Levels below SUSPENDED are requests to engines that Stoker itself launches; that one is the driver's work."""
    table, engine = entry.table, engine_of(entry.engine)
    if table.sleep_level == SUSPENDED:
        if table.embedded:
            doc.problem(entry.at("sleep_level"), f"{SUSPENDED} is for NVIDIA GPUs; the embedded engine uses none")
    elif table.sleep_level is not None and (engine.sleep is None or table.cmd is not None):
        sleepers = _listed(lambda engine: engine.sleep)
        text = f"is for the engines {sleepers} without a `cmd`; {SUSPENDED} is for any engine on NVIDIA GPUs"
        doc.problem(entry.at("sleep_level"), text)


def _check_engine(doc: ConfigDocument, entry: ServeEntry) -> None:
    table, engine = entry.table, engine_of(entry.engine)
    _check_sleep_level(doc, entry)
    is_ours = table.cmd is None and entry.driver == "process"
    if table.keep_conversations and not (is_ours and engine.saves_conversations):
        savers = _listed(lambda engine: engine.saves_conversations)
        doc.problem(
            entry.at("keep_conversations"),
            f"is for the engine {savers} with driver process and without a `cmd`: only it saves its KV cache",
        )
    _check_sequence(doc, entry)
    if refused := engine.refused_name(entry.served_name):
        doc.problem(entry.at("served_name"), refused)
    for key in unused_keys("cmd") if table.cmd is not None else ():
        if key != "extra_args" and entry.gives(doc, key):
            doc.problem(
                entry.at(key),
                f"has no effect for serve '{entry.name}', which has a `cmd`: write it into `cmd`",
            )


def _listed(has: Callable[[Engine], object]) -> str:
    return " and ".join(those(has))


def _check_sequence(doc: ConfigDocument, entry: ServeEntry) -> None:
    """With `keep_conversations`, nobody else chooses the slot of the engine."""
    if not entry.table.keep_conversations:
        return
    tables: list[tuple[KeyPath, RequestParameters]] = [(entry.at("request"), entry.table.request)]
    tables += [((*entry.at("variant"), at), variant.request) for at, variant in enumerate(entry.table.variants)]
    for path, table in tables:
        for key, given in (("set", table.set), ("default", table.default)):
            if "id_slot" in given:
                doc.problem(
                    (*path, key, "id_slot"),
                    "contradicts `keep_conversations`, which chooses the slot of the engine for each conversation; "
                    "remove one of the two",
                )


def _check_fallbacks(doc: ConfigDocument, entries: list[ServeEntry]) -> None:
    known = {entry.name: entry for entry in entries if not entry.table.abstract and entry.section == "serve"}
    clouds = {entry.name for entry in entries if entry.section == "tier"} - known.keys()
    for entry in known.values():
        if entry.lacks(doc, "fallback") and entry.gives(doc, "fallback_on"):
            doc.problem(entry.at("fallback_on"), "has no effect without `fallback`; name a serve, or remove it")
        elif not entry.table.fallback_on:
            doc.problem(entry.at("fallback_on"), "is empty, so the fallback never answers; name a cause")
        name = entry.table.fallback
        if name is None or name in known:
            continue
        if name in clouds:
            text = f"'{name[:64]}' is a cloud tier, which cannot be a fallback; name a serve"
            doc.problem(entry.at("fallback"), text)
        else:
            doc.problem(entry.at("fallback"), f"there is no serve '{name[:64]}'{doc.did_you_mean(name, known)}")
    for cycle in _cycles({name: entry.table.fallback for name, entry in known.items()}):
        doc.problem(known[cycle[0]].at("fallback"), f"a cycle: {' falls back to '.join((*cycle, cycle[0]))}")


def _cycles(following: Mapping[str, str | None]) -> Iterator[list[str]]:
    """Each cycle once, from the first name in it. `following`: what comes after each name."""
    visited: dict[str, str] = {}
    """By name: where the walk began that came here first."""
    for begin in following:
        way, name = list[str](), begin
        while name in following and name not in visited:
            visited[name] = begin
            way.append(name)
            name = following[name] or ""
        if visited.get(name) == begin:
            yield way[way.index(name) :]


def _check_cmd(doc: ConfigDocument, entry: ServeEntry, cmd: Sequence[str]) -> None:
    path = entry.at("cmd")
    near = _check_words(doc, entry, "cmd", cmd)
    if not any("{port}" in part for part in cmd) and entry.lacks(doc, "port") and not near:
        doc.problem(path, "contains no {port}, and the serve has no `port`: give one of the two")
