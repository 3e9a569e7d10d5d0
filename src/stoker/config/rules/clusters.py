"""Rules about clusters, the slots that are shares of them, and what a job there cannot do.

1. address and token are given         4. what belongs to devices of this machine is left out, and the other way
2. the name can be used                5. a serve in such a slot is a process without what only this machine can do
3. a slot's cluster exists             6. its engine is not spread over more GPUs than the slot reserves
7. it takes no other slot together with it
"""

from __future__ import annotations

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.line_numbers import KeyPath
from stoker.config.tables import value_checks
from stoker.config.tables.file import File
from stoker.domain.nearest import did_you_mean
from stoker.domain.serve import slots_of

CLUSTER_SLOT_IGNORES = ("devices", "memory", "together")
"""Keys without effect for a slot of a cluster."""
_WHOLE_GPUS = "Ray reserves whole GPUs, so such a slot holds one serve at a time; remove it"
_NOT_IN_A_CLUSTER = {
    "devices": "a cluster chooses the devices of a job itself; remove it, and set `gpus`",
    "memory": _WHOLE_GPUS,
    "together": _WHOLE_GPUS,
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
    "embedded": "it is installed on this machine; remove it: `llama-server` has to be on the node's PATH",
    "host": "a job listens on the address of its node; remove it",
    "rendezvous": "an engine runs on one node; remove it",
}
"""Keys of a serve that a job in a cluster cannot have, and why."""


def check_clusters(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """All of them."""
    for name, table in file.clusters.items():
        path: KeyPath = ("clusters", name)
        for key, example in (("address", '"http://HEAD:8265"'), ("token", '"file:ray.token"')):  # 1
            if getattr(table, key) is None and not doc.is_spoiled((*path, key)):
                doc.problem(path, f"`{key}` is missing: {key} = {example}")
        try:
            value_checks.name(name)  # 2
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
        hint = did_you_mean(slot.cluster, file.clusters) or f"; add a section [clusters.{slot.cluster}]"
        doc.problem((*path, "cluster"), f"there is no cluster '{slot.cluster}'{hint}")
    for key, reason in _NOT_IN_A_CLUSTER.items():  # 4
        if doc.holds((*path, key)):
            doc.problem((*path, key), f"cannot be used with `cluster`: {reason}")


def _check_serve(doc: ConfigDocument, file: File, entry: ServeEntry) -> None:
    table = entry.table
    remote = []
    for named in (table.slot, *table.slots):
        parts = slots_of(named) if named is not None else ()
        found = [name for name in parts if name in file.slots and file.slots[name].cluster is not None]
        if found and len(parts) > 1:  # 7
            text = f"'{named}' takes several slots, and '{found[0]}' is in a cluster: make one slot with more `gpus`"
            doc.problem(entry.at(doc, "slots" if table.slots else "slot"), text)
        remote += found
    if not remote:
        return
    where = f"slot '{remote[0]}' is in cluster '{file.slots[remote[0]].cluster}'"
    if entry.driver != "process":  # 5
        text = f"{where}, where only processes run as jobs, and serve '{entry.name}' has driver {entry.driver}; "
        doc.problem(entry.at(doc, "slot"), f"{text}give it a slot of this machine")
        return
    for key, reason in NOT_IN_A_JOB.items():
        is_meant = key != "context" or table.context == "auto"
        if is_meant and entry.gives(doc, key) and (key != "warm" or table.warm != "never"):
            doc.problem(entry.at(doc, key), f"cannot be used here: {where}: {reason}")
    wanted = (table.tensor_parallel or 1) * (table.pipeline_parallel or 1)  # 6
    for name in remote:
        reserved = file.slots[name].gpus
        if wanted > reserved:
            text = f"needs {wanted} GPUs, and slot '{name}' reserves {reserved}: set `gpus = {wanted}` there"
            key = "tensor_parallel" if (table.tensor_parallel or 1) > 1 else "pipeline_parallel"
            doc.problem(entry.at(doc, key), text)
