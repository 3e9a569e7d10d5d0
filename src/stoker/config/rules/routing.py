"""Rules about tiers and classes."""

from __future__ import annotations

from collections.abc import Collection

from stoker.config.cloud_tiers import is_trusted
from stoker.config.document import ConfigDocument
from stoker.config.inheritance import ServeEntry
from stoker.config.rules.names import NO_CLASS
from stoker.config.sections import table_names
from stoker.config.tables.file import File
from stoker.config.tables.router import TierTable
from stoker.domain import kinds
from stoker.domain.definition import KeyPath
from stoker.domain.routing import ANY, includes_class
from stoker.domain.task import CLASSES, UNKNOWN

_OF_A_CLOUD = ("base_url", "cloud", "dialect", "key", "model", "max_active")


def check_routing(doc: ConfigDocument, file: File, entries: list[ServeEntry]) -> None:
    """Each tier is one thing and says what it costs; every class and every tier that is named is there."""
    serves = {entry.name: entry for entry in entries if entry.section == "serve" and not entry.table.abstract}
    knows_serves = _knows_serves(doc, entries)
    for index, tier in enumerate(file.tier):
        path: KeyPath = ("tier", index)
        _check_source(doc, path, tier, serves, all_known=knows_serves)
        _check_cost(doc, path, tier, serves)
    if not file.tier and doc.holds(("router",)) and not doc.is_spoiled(("tier",)):
        doc.problem(("router",), "there is no [[tier]] to choose from; add one, or remove this section")
    _check_specialists(doc, file)
    _check_shadow(doc, file)
    _check_classifier(
        doc,
        file,
        [*serves, *(tier.name for tier in file.tier if tier.name and tier.base_url)],
        all_known=knows_serves and not doc.is_spoiled(("tier",)),
    )
    _check_classes(doc, file)


def _check_source(
    doc: ConfigDocument, path: KeyPath, tier: TierTable, serves: dict[str, ServeEntry], all_known: bool
) -> None:
    """1. A serve: it is there, and has its own keys. 2. A cloud: it says which model. 3. Neither."""
    title = f"tier '{(tier.name or '')[:64]}'"
    if tier.serve is not None:  # 1
        own = serves[tier.serve].table if tier.serve in serves else None
        if own is not None and own.also:
            text = "has `also`, and what answers elsewhere cannot be identified as the measured model; remove it"
            doc.problem((*path, "serve"), f"serve '{tier.serve}' {text}")
        if tier.serve not in serves and all_known:
            doc.problem(
                (*path, "serve"), f"there is no serve '{tier.serve[:64]}'{doc.did_you_mean(tier.serve, serves)}"
            )
        for key in _OF_A_CLOUD:
            if doc.holds((*path, key)):
                doc.problem(
                    (*path, key), f"applies to a cloud, and {title} is serve '{tier.serve}'; remove one of the two"
                )
    elif tier.base_url is not None:  # 2
        if tier.model is None and not doc.is_spoiled((*path, "model")):
            doc.problem(path, f"{title} has no `model`; give the cloud's name of the model")
    elif not any(doc.is_spoiled((*path, key)) for key in ("serve", "base_url")):  # 3
        doc.problem(path, f"{title} has no `serve` and no `base_url`; give one of the two")


def _check_cost(doc: ConfigDocument, path: KeyPath, tier: TierTable, serves: dict[str, ServeEntry]) -> None:
    if tier.cost is not None:
        for key in ("input", "output"):
            if not doc.holds((*path, "cost", key)) and not doc.is_spoiled((*path, "cost", key)):
                doc.problem((*path, "cost"), f"`{key}` is missing; write 0 if it costs nothing")
    elif _is_cloud(tier, serves) and not doc.is_spoiled((*path, "cost")):
        doc.problem(
            path, "a cloud needs `cost`: write cost = { input = 3.0, output = 15.0 }, or 0 for both if it is free"
        )


def _is_cloud(tier: TierTable, serves: dict[str, ServeEntry]) -> bool:
    if tier.serve is None:
        return tier.base_url is not None and is_trusted(tier)
    if tier.serve not in serves:
        return False
    return serves[tier.serve].translation.cloud


def _check_specialists(doc: ConfigDocument, file: File) -> None:
    tiers = {tier.name: tier for tier in file.tier if tier.name}
    orchestrators = table_names(file, "orchestrator")
    all_known = not doc.is_spoiled(("tier",)) and len(tiers) == len(file.tier)
    for one in file.router.classes:
        name = one.name
        if one.orchestrator is not None and one.orchestrator not in orchestrators:
            hint = doc.did_you_mean(one.orchestrator, orchestrators)
            text = f"there is no orchestrator '{one.orchestrator[:64]}'{hint}"
            doc.problem(("router", "class", name, "orchestrator"), text)
        path: KeyPath = ("router", "class", name, "tier")
        if one.tier is None:
            continue
        if one.tier not in tiers:
            if all_known:
                doc.problem(path, f"there is no tier '{one.tier[:64]}'{doc.did_you_mean(one.tier, tiers)}")
        elif not includes_class(name, tuple(tiers[one.tier].classes)):
            line = doc.line(("tier", file.tier.index(tiers[one.tier]), "classes"))
            doc.problem(
                path,
                f"tier '{one.tier}' does not serve this class (line {line}); name another tier, or add the class there",
            )


def _check_shadow(doc: ConfigDocument, file: File) -> None:
    shadow, path = file.router.shadow, ("router", "shadow")
    judge = (*path, "judge")
    if not shadow.judge:
        if shadow.rate > 0 and not doc.is_spoiled(judge):
            doc.problem(path, "`judge` is missing; name the tier that grades the answers")
        return
    tiers = [tier.name for tier in file.tier if tier.name]
    if shadow.judge not in tiers and len(tiers) == len(file.tier) and not doc.is_spoiled(("tier",)):
        doc.problem(judge, f"there is no tier '{shadow.judge[:64]}'{doc.did_you_mean(shadow.judge, tiers)}")


def _check_classifier(doc: ConfigDocument, file: File, known: Collection[str], all_known: bool) -> None:
    table, path = file.router.classifier, ("router", "classifier")
    serve = (*path, "serve")
    if table is None:
        return
    if not table.serve:
        if not doc.is_spoiled(serve):
            doc.problem(path, "`serve` is missing; name the serve that classifies requests")
    elif table.serve not in known and all_known:
        doc.problem(serve, f"there is no serve '{table.serve[:64]}'{doc.did_you_mean(table.serve, known)}")


def _check_classes(doc: ConfigDocument, file: File) -> None:
    own = [one.name for one in file.router.classes]
    if doc.is_spoiled(("router", "class")):
        return
    for name in own:
        _check_class_name(doc, name)
    known = dict.fromkeys((*CLASSES, *own))
    places: list[tuple[KeyPath, str]] = [
        *((("router", "high_risk", i), name) for i, name in enumerate(file.router.high_risk)),
        *((("router", "cloud_classes", i), name) for i, name in enumerate(file.router.cloud_classes)),
    ]
    for index, tier in enumerate(file.tier):
        path = ("tier", index)
        places += [((*path, "classes", i), name) for i, name in enumerate(tier.classes)]
        places += [((*path, "verify_class", name), name) for name in tier.verify_class]
        only_judges = tier.name is not None and tier.name == file.router.shadow.judge
        if not tier.classes and not only_judges and not doc.is_spoiled((*path, "classes")):
            doc.problem(
                (*path, "classes"),
                'is empty, so the tier serves nothing; list classes, or write ["*"]; only the judge of [router.shadow] '
                "may serve none",
            )
    for place, name in places:
        _check_class(doc, place, name, known)


def _check_class_name(doc: ConfigDocument, name: str) -> None:
    if name == UNKNOWN:
        doc.problem(("router", "class", name), NO_CLASS)
        return
    try:
        kinds.name(name)
    except ValueError as error:
        doc.problem(("router", "class", name), str(error))


def _check_class(doc: ConfigDocument, place: KeyPath, name: str, known: Collection[str]) -> None:
    """`*` means every class where a list of permissions stands, and nothing elsewhere."""
    if name == UNKNOWN:
        doc.problem(place, NO_CLASS)
        return
    if name in known or doc.is_spoiled(("router", "class", name)):
        return
    if name == ANY and place[-2] in ("classes", "cloud_classes"):
        return
    hint = doc.did_you_mean(name, known) or f"; add a section [router.class.{name[:64]}]"
    doc.problem(place, f"there is no class '{name[:64]}'{hint}")


def _knows_serves(doc: ConfigDocument, entries: list[ServeEntry]) -> bool:
    rows = [entry for entry in entries if entry.section == "serve"]
    return not doc.is_spoiled(("serve",)) and not any(doc.is_spoiled(entry.at("name")) for entry in rows)
