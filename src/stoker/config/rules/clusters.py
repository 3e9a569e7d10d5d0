"""Rules about clusters, the slots that are shares of them, and what a job there cannot do.

1. address and token are given         4. what belongs to devices of this machine is left out, and the other way
2. the name can be used                5. a serve in such a slot is a process without what only this machine can do
3. a slot's cluster exists             6. its engine is not spread over more GPUs than the slot reserves
7. it takes several of them together only in one cluster, with an engine that has ranks, on the same number of GPUs each
8. a command without such a place has no use for the words about ranks
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.rules.serves import OF_RANKS
from stoker.config.tables.file import File
from stoker.domain import kinds
from stoker.domain.definition import KeyPath
from stoker.domain.serve import slots_of
from stoker.engines.registry import DEFAULT, engine_of, those

CLUSTER_SLOT_IGNORES = ("devices", "memory", "together", "yields_to", "yields_above", "return_after")
"""Keys without effect for a slot of a cluster."""
_WHOLE_GPUS = "Ray reserves whole GPUs, so such a slot holds one serve at a time; remove it"
_OTHER_PROGRAMS = "Stoker does not see the programs of a node; remove it"
_NOT_IN_A_CLUSTER = {
    "devices": "a cluster chooses the devices of a job itself; remove it, and set `gpus`",
    "memory": _WHOLE_GPUS,
    "together": _WHOLE_GPUS,
    "yields_to": _OTHER_PROGRAMS,
    "yields_above": _OTHER_PROGRAMS,
}
_FILES = "Stoker does not see the files of a node: put the weights there, or on a shared path"
_NO_MEMORY = "Stoker does not see the memory of a node"
NOT_IN_A_JOB = {
    "source": f"{_FILES}; remove it",
    "sha256": f"{_FILES}; remove it",
    "context": f"{_NO_MEMORY}: give a number",
    "keep_conversations": "the saved caches would lie on the node; remove it",
    "sleep_level": "the GPU stays reserved while an engine sleeps; remove it",
    "warm": "weights are kept in memory on this machine only; remove it",
    "memory": f"{_NO_MEMORY}; remove it",
    "stop": "the command would run on this machine, and Ray ends the job; remove it",
    "requires": "it is checked on this machine, and the engine runs on a node; remove it",
    "conflicts": "they are looked for on this machine, and the engine runs on a node; remove it",
    "embedded": f"it is installed on this machine; remove it: `{DEFAULT.program}` has to be on the node's PATH",
    "host": "a job listens on the address of its node; remove it",
    "rendezvous": "Stoker tells the ranks of an engine where they meet; remove it",
}
"""Keys of a serve that a job in a cluster cannot have, and why."""


def check_clusters(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """All of them."""
    for name, table in file.clusters.items():
        path: KeyPath = ("clusters", name)
        for key, example in (("address", '"http://HEAD:8265"'), ("token", '"file:ray.token"')):  # 1
            if not getattr(table, key) and not doc.is_spoiled((*path, key)):
                doc.problem(path, f"`{key}` is missing: {key} = {example}")
        try:
            kinds.name(name)  # 2
        except ValueError as error:
            doc.problem(path, str(error))
    for name in file.slots:
        _check_slot(doc, file, name)
    for entry in entries:
        if not entry.table.abstract and not entry.is_external:
            _check_serve(doc, file, entry)


def _check_slot(doc: ConfigDocument, file: File, name: str) -> None:
    slot, path = file.slots[name], ("slots", name)
    if slot.cluster is None:
        for key in ("gpus", "node") if not doc.is_spoiled((*path, "cluster")) else ():  # 4
            if doc.holds((*path, key)):
                doc.problem((*path, key), "has no effect without `cluster`; name a cluster, or remove it")
        return
    if slot.cluster not in file.clusters and not doc.is_spoiled(("clusters", slot.cluster)):  # 3
        hint = doc.did_you_mean(slot.cluster, file.clusters) or f"; add a section [clusters.{slot.cluster}]"
        doc.problem((*path, "cluster"), f"there is no cluster '{slot.cluster}'{hint}")
    for key, reason in _NOT_IN_A_CLUSTER.items():  # 4
        if doc.holds((*path, key)):
            doc.problem((*path, key), f"cannot be used with `cluster`: {reason}")


def _check_serve(doc: ConfigDocument, file: File, entry: ServeEntry) -> None:
    table = entry.table
    places = [slots_of(named) for named in (table.slot, *table.slots) if named is not None]
    remote = [place for place in places if any(_cluster_of(file, name) is not None for name in place)]
    is_known = all(name in file.slots for place in places for name in place)
    if is_known and (not remote or any(len(place) == 1 or place not in remote for place in places)):  # 8
        _check_no_rank_words(doc, entry, places)
    if not remote:
        return
    name = next(name for name in remote[0] if _cluster_of(file, name) is not None)
    where = f"slot '{name}' is in cluster '{_cluster_of(file, name)}'"
    if entry.driver != "process":  # 5
        text = f"{where}, where only processes run as jobs, and serve '{entry.name}' has driver {entry.driver}; "
        doc.problem(entry.at("slot"), f"{text}give it a slot of this machine")
        return
    for key, reason in NOT_IN_A_JOB.items():
        is_meant = key != "context" or table.auto_context
        if is_meant and entry.gives(doc, key) and (key != "warm" or table.warm != "never"):
            doc.problem(entry.at(key), f"cannot be used here: {where}: {reason}")
    for place in remote:
        if len(place) == 1:
            _check_gpus(doc, file, entry, place[0])
        elif all(one in file.slots for one in place) and (problem := _ranks_problem(doc, file, entry, place)):  # 7
            doc.problem(entry.at("slots" if table.slots else "slot"), f"'{'+'.join(place)}': {problem}")


def _cluster_of(file: File, slot: str) -> str | None:
    return file.slots[slot].cluster if slot in file.slots else None


def _check_gpus(doc: ConfigDocument, file: File, entry: ServeEntry, slot: str) -> None:
    wanted, reserved = _gpus_of(entry), file.slots[slot].gpus
    if wanted > reserved:  # 6
        text = f"needs {wanted} GPUs, and slot '{slot}' reserves {reserved}: set `gpus = {wanted}` there"
        key = "tensor_parallel" if (entry.table.tuning.tensor_parallel or 1) > 1 else "pipeline_parallel"
        doc.problem(entry.at(key), text)


def _gpus_of(entry: ServeEntry) -> int:
    return (entry.table.tuning.tensor_parallel or 1) * (entry.table.tuning.pipeline_parallel or 1)


def _ranks_problem(doc: ConfigDocument, file: File, entry: ServeEntry, place: tuple[str, ...]) -> str:
    """Why an engine cannot have one rank in each of these slots; empty: it can."""
    for slot in place:
        if _cluster_of(file, slot) is None:
            return f"slot '{slot}' is on this machine, and an engine's ranks run in one cluster: take slots of one only"
        if _cluster_of(file, slot) != _cluster_of(file, place[0]):
            return f"slot '{slot}' is in another cluster than slot '{place[0]}': take slots of one only"
    if entry.table.cmd is not None:
        missing = [word for word in OF_RANKS if word != "ranks" and not _uses(entry.table.cmd, word)]
        needed = ", ".join(f"{{{word}}}" for word in missing)
        return f"its command runs once per slot, as one rank of the engine; it has to use {needed}" if missing else ""
    if not engine_of(entry.engine).has_ranks:
        if doc.is_spoiled(entry.at("engine")):
            return ""
        return (
            f"engine {entry.engine} runs on one machine, and {' and '.join(those(lambda engine: engine.has_ranks))} "
            "on several: make one slot with more `gpus`"
        )
    gpus = [file.slots[slot].gpus for slot in place]
    if len(set(gpus)) > 1:
        return f"its ranks need the same number of GPUs each, and `gpus` of these slots are {_listed(gpus)}"
    if _gpus_of(entry) != sum(gpus):
        return (
            f"these slots reserve {sum(gpus)} GPUs, and the engine is spread over {_gpus_of(entry)}: set "
            f"`tensor_parallel = {gpus[0]}` and `pipeline_parallel = {len(gpus)}`, or two others whose product is "
            f"{sum(gpus)}"
        )
    return ""


def _check_no_rank_words(doc: ConfigDocument, entry: ServeEntry, places: list[tuple[str, ...]]) -> None:
    used = [word for word in OF_RANKS if _uses(entry.table.cmd or [], word)]
    if used:
        alone = next(("+".join(place) for place in places if len(place) == 1), None)
        which = f"slot '{alone}' is a single one" if alone is not None else "the serve has no such place"
        text = f'{{{used[0]}}} is for a place of several slots in a cluster ("lab-a+lab-b"), and {which}'
        doc.problem(entry.at("cmd"), text)


def _uses(cmd: Iterable[str], word: str) -> bool:
    return any(f"{{{word}}}" in part.replace("{{", "") for part in cmd)


def _listed(numbers: Iterable[int]) -> str:
    return " and ".join(str(number) for number in numbers)
