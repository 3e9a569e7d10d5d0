"""Rules about gates and aliases."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.rules.names import NO_CLASS, auto_names, model_names
from stoker.config.tables.file import File
from stoker.domain.definition import KeyPath
from stoker.domain.gate import PRODUCTION
from stoker.domain.kinds import served_name
from stoker.domain.routing import is_reserved
from stoker.domain.task import UNKNOWN


def check_gates(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """Each alias names a serve (or a task) and a gate that are there, and no name that is taken."""
    gates, aliases = file.gate, file.alias
    for name, gate in gates.items():
        if not gate.conditions and not doc.is_spoiled(("gate", name, "conditions")):
            doc.problem(("gate", name), f"gate '{name[:64]}' has no `conditions`; say what a serve has to meet")
    names, serves = model_names(entries, file), [entry.name for entry in entries if not entry.table.abstract]
    variants = {one.name: entry.name for entry in entries for one in entry.table.variants if one.name}
    for name, alias in aliases.items():
        path: KeyPath = ("alias", name)
        try:
            served_name(name)
        except ValueError as error:
            doc.problem(path, str(error))
        if name in names or is_reserved(name):
            doc.problem(path, f"'{name[:64]}' is already the name of a serve or a tier; give the alias another name")
        if alias.serves is not None or doc.is_spoiled((*path, "serves")):
            _check_choice(doc, path, alias.serves or (), [*serves, *variants])
        elif doc.holds((*path, "pick")):
            doc.problem((*path, "pick"), "has no effect without `serves`; name the serves, or remove it")
        elif alias.serve is None:
            if not doc.is_spoiled((*path, "serve")):
                doc.problem(path, f"alias '{name[:64]}' has no `serve`; name the serve that it points to")
        elif is_reserved(alias.serve):
            _check_task(doc, file, path, alias.serve)
        elif alias.serve in aliases and alias.serve not in serves:
            text = f"'{alias.serve[:64]}' is an alias; an alias may point to a serve, `auto` or `auto:CLASS`"
            doc.problem(_place(doc, path, "serve"), text)
        elif alias.serve in variants:
            text = (
                f"'{alias.serve[:64]}' is a variant of serve '{variants[alias.serve]}', and an alias of one serve "
                f'points to a whole serve; write serves = ["{alias.serve[:64]}"]'
            )
            doc.problem(_place(doc, path, "serve"), text)
        elif alias.serve not in serves:
            text = f"there is no serve '{alias.serve[:64]}'{doc.did_you_mean(alias.serve, serves)}"
            doc.problem(_place(doc, path, "serve"), text)
        known = {**gates, PRODUCTION.name: PRODUCTION}
        if alias.gate is not None and alias.gate not in known:
            doc.problem((*path, "gate"), f"there is no gate '{alias.gate[:64]}'{doc.did_you_mean(alias.gate, known)}")


def _check_choice(doc: ConfigDocument, path: KeyPath, serves: Sequence[str], known: list[str]) -> None:
    """1. keys that only an alias of one serve has  2. no serve  3. one that is not there  4. one twice"""
    for key in ("serve", "gate", "watch", "check_every", "if_undecided"):  # 1
        if doc.holds((*path, key)):
            why = (
                "remove one of the two" if key == "serve" else "an alias of several serves is never promoted; remove it"
            )
            doc.problem((*path, key), f"does not go together with `serves`: {why}")
    if not serves and not doc.is_spoiled((*path, "serves")):
        doc.problem((*path, "serves"), "is empty; name at least one serve")  # 2
    for place, name in enumerate(serves):
        if name not in known:
            hint = doc.did_you_mean(name, known)
            doc.problem((*path, "serves", place), f"there is no serve '{name[:64]}'{hint}")  # 3
        elif name in serves[:place]:
            doc.problem((*path, "serves", place), f"'{name[:64]}' is there twice; remove it")  # 4


def _check_task(doc: ConfigDocument, file: File, path: KeyPath, meant: str) -> None:
    """1. there is no tier  2. the class is unknown  3. keys that only a promotion needs"""
    known = auto_names(file)
    name = meant.removeprefix("auto:")
    if not known:  # 1
        if not doc.is_spoiled(("tier",)):
            doc.problem(
                _place(doc, path, "serve"), f"'{meant[:64]}' chooses among tiers, but there is no [[tier]]; add one"
            )
    elif name == UNKNOWN:
        doc.problem(_place(doc, path, "serve"), NO_CLASS)
    elif meant not in known and not any(map(doc.is_spoiled, (("router", "class"), ("router", "class", name)))):  # 2
        hint = doc.did_you_mean(name, [one.removeprefix("auto:") for one in known])
        hint = hint or f"; add a section [router.class.{name[:64]}]"
        doc.problem(_place(doc, path, "serve"), f"there is no class '{name[:64]}'{hint}")
    for key in ("gate", "watch", "check_every", "if_undecided"):  # 3
        if doc.holds((*path, key)):
            doc.problem(
                (*path, key), f"applies to promotions, and an alias of `{meant[:64]}` is never promoted; remove it"
            )


def _place(doc: ConfigDocument, path: KeyPath, key: str) -> KeyPath:
    return (*path, key) if doc.holds((*path, key)) else path
