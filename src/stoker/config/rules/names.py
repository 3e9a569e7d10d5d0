"""One namespace for the `model` field: the names of serves, their aliases and variants, tiers, and what is reserved.

A served name is what an engine calls its model. Clients may ask for it, too, unless something else has that name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.sections import table_names
from stoker.config.tables.file import File
from stoker.config.tables.router import TierTable
from stoker.domain.definition import KeyPath
from stoker.domain.routing import AUTO, is_reserved
from stoker.domain.serve import ServeRow
from stoker.domain.task import CLASSES, UNKNOWN
from stoker.request.decide.alias_patterns import is_pattern

NO_CLASS = (
    f"'{UNKNOWN}' is not a class: it is Stoker's word for a request whose task it cannot find "
    "(docs/how-it-works/routing.md); choose another name"
)
"""The problem of a place that names it as a class."""


class Claim(NamedTuple):
    """A name, and the row that uses it."""

    name: str
    place: KeyPath
    owner: KeyPath
    """The row that the name belongs to."""
    title: str
    """What messages call the owner."""
    is_served_name: bool = False


def model_names(entries: list[ServeEntry], file: File) -> set[str]:
    """Everything that a client may write into `model`, but for what is reserved."""
    real = [entry for entry in entries if not entry.table.abstract]
    names = {claim.name for claim in _claims(real, file.tier) if not claim.is_served_name}
    return names | public_served_names(entries, file)


def public_served_names(entries: list[ServeEntry], file: File) -> set[str]:
    """The served names that clients may ask for: those that one serve has, and that mean nothing else."""
    real = [entry for entry in entries if not entry.table.abstract]
    claims = list(_claims(real, file.tier))
    owners: dict[str, set[KeyPath]] = defaultdict(set)
    for claim in claims:
        owners[claim.name].add(claim.owner)
    others = {*file.alias, *table_names(file, "orchestrator")}
    return {
        claim.name
        for claim in claims
        if claim.is_served_name
        and len(owners[claim.name]) == 1
        and claim.name not in others
        and not is_reserved(claim.name)
    }


def auto_names(file: File) -> list[str]:
    """What is reserved and can be asked for: `auto` and `auto:CLASS`, where there are tiers."""
    classes = dict.fromkeys((*CLASSES, *(one.name for one in file.router.classes)))
    return [AUTO, *(f"{AUTO}:{name}" for name in classes)] if file.tier else []


def check_names(doc: ConfigDocument, entries: list[ServeEntry], tiers: Sequence[TierTable]) -> None:
    """Finds missing names, and for each name:

    1. it is reserved
    2. an earlier tier has it
    3. it already means another serve or tier; twice within one serve is fine, a tier of that serve included
    """
    _check_missing(doc, "serve", [entry.table for entry in entries if entry.section == "serve"])
    _check_missing(doc, "tier", tiers)
    for entry in entries:
        if entry.section == "serve":
            _check_variants(doc, entry)
    owners: dict[str, Claim] = {}
    rows: dict[str, KeyPath] = {}
    for claim in _claims(entries, tiers):
        if claim.is_served_name:
            continue
        shown = claim.name[:64]
        if is_reserved(claim.name):  # 1
            doc.problem(claim.place, f"'{shown}' is reserved for routing; choose another name")
        elif claim.place[0] == "tier" and rows.setdefault(claim.name, claim.place) != claim.place:  # 2
            doc.problem(
                claim.place, f"line {doc.line(rows[claim.name])} already has a tier with this name; choose another"
            )
        elif (first := owners.setdefault(claim.name, claim)).owner != claim.owner:  # 3
            doc.problem(
                claim.place,
                f"'{shown}' already means {first.title} (line {doc.line(first.place)}); "
                "names, aliases, variants and tiers must differ",
            )


def _check_missing(doc: ConfigDocument, section: str, rows: Sequence[ServeRow | TierTable]) -> None:
    for index, row in enumerate(rows):
        if not row.name and not doc.is_spoiled((section, index, "name")):
            doc.problem((section, index), f"`name` is missing; every [[{section}]] needs one")


def _check_variants(doc: ConfigDocument, entry: ServeEntry) -> None:
    for place, variant in enumerate(entry.table.variants):
        path: KeyPath = ("serve", entry.index, "variant", place)
        if not variant.name and not doc.is_spoiled((*path, "name")):
            doc.problem(path, "`name` is missing; every [[serve.variant]] needs one")
        elif is_pattern(variant.name):
            doc.problem((*path, "name"), "is a pattern; only `aliases` may have the wildcards `*` and `?`")


def _claims(entries: list[ServeEntry], tiers: Sequence[TierTable]) -> Iterator[Claim]:
    rows: dict[str, KeyPath] = {}
    for entry in entries:
        if entry.section == "serve":
            rows.setdefault(entry.name, ("serve", entry.index))
            yield from _own(entry)
    for index, tier in enumerate(tiers):
        path: KeyPath = ("tier", index)
        if tier.name:
            yield Claim(tier.name, (*path, "name"), rows.get(tier.serve or "", path), f"tier '{tier.name}'")


def _own(entry: ServeEntry) -> Iterator[Claim]:
    table, path, title = entry.table, ("serve", entry.index), f"serve '{entry.name}'"
    if table.name:
        yield Claim(table.name, (*path, "name"), path, title)
    if table.served_name:
        yield Claim(table.served_name, (*path, "served_name"), path, title, is_served_name=True)
    elif entry.served_name != entry.name:
        yield Claim(entry.served_name, (*path, "model"), path, title, is_served_name=True)
    for place, alias in enumerate(table.aliases):
        yield Claim(alias, (*path, "aliases", place), path, title)
    for place, variant in enumerate(table.variants):
        if variant.name:
            row = (*path, "variant", place)
            yield Claim(variant.name, (*row, "name"), row, f"variant '{variant.name}' of {title}")
