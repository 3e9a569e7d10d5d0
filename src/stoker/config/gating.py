"""Gates and the aliases that are held to them: what no single key can tell."""

from __future__ import annotations

from stoker.config.document import Document
from stoker.config.inherit import Entry
from stoker.config.naming import model_names
from stoker.config.nearest import did_you_mean
from stoker.config.schema import File


def check_gates(doc: Document, file: File, entries: list[Entry]) -> None:
    """Each alias names a serve and a gate that are there, and no name that is taken."""
    gates, aliases = file.gate, file.alias
    for name, gate in gates.items():
        if not gate.conditions and not doc.is_spoiled(("gate", name, "conditions")):
            doc.problem(("gate", name), f"gate '{name[:64]}' has no `conditions`: what is it to prove?")
    names, serves = model_names(entries, file.tier), [entry.name for entry in entries if not entry.table.abstract]
    for name, alias in aliases.items():
        path = ("alias", name)
        if name in names or name == "auto" or name.startswith("auto:"):
            doc.problem(
                path, f"'{name[:64]}' is taken: a serve or a tier goes by that name; an alias needs one of its own"
            )
        if alias.serve is None:
            if not doc.is_spoiled((*path, "serve")):
                doc.problem(path, f"alias '{name[:64]}' has no `serve`: which one does it mean?")
        elif alias.serve not in serves:
            doc.problem((*path, "serve"), f"there is no serve '{alias.serve[:64]}'{did_you_mean(alias.serve, serves)}")
        if alias.gate is not None and alias.gate not in gates:
            doc.problem((*path, "gate"), f"there is no gate '{alias.gate[:64]}'{did_you_mean(alias.gate, gates)}")
