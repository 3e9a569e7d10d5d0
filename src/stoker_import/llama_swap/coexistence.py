"""Which models may be loaded at the same time, as slots. Pure.

llama-swap unloads by rules: a group with `swap` unloads its other members, an `exclusive` one all groups that are not
`persistent`. Two models *conflict* if each unloads the other, or if their servers have the same port: then they are
never loaded together. If only one unloads the other, they are, when they are loaded in the other order. Models that
conflict, directly or through others, share a slot. If all of them conflict, the slot holds one at a time; else
`together` lists the possible sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from stoker.domain.errors import ConfigError
from stoker_import.llama_swap.matrix import MAX_SETS, expand_matrix
from stoker_import.llama_swap.settings import Group, LlamaSwapSettings

DEFAULT_GROUP = "(default)"
MAIN = "main"


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """A slot, and which of its models may be loaded together."""

    name: str
    models: tuple[str, ...]
    together: tuple[tuple[str, ...], ...] = ()
    """Empty: one at a time."""


@dataclass(frozen=True, slots=True)
class Coexistence:
    """Slots, and rules that could not be imported exactly."""

    slots: tuple[PlannedSlot, ...]
    """Models that conflict with no other are in none."""
    one_way: tuple[tuple[str, str], ...] = ()
    """Pairs of groups: loading a member of the first unloads the second, but not the other way round."""
    one_port: frozenset[str] = frozenset()
    """Models that llama-swap would load beside others, on a port that only one of them can have."""

    def slot_of(self, model: str) -> str | None:
        return next((slot.name for slot in self.slots if model in slot.models), None)


def plan_slots(settings: LlamaSwapSettings) -> Coexistence:
    """Raises ConfigError if a matrix cannot be read or is too large."""
    models = sorted(settings.models)
    one_port = _of_one_port(settings)
    if settings.matrix is not None:
        sets = expand_matrix(settings.matrix.expressions, settings.matrix.names)
        planned = {frozenset(pair) for one in sets for pair in combinations(one, 2)}
        sets = [part for one in sets for part in _cliques(sorted(one), one_port)]
        together = {frozenset(pair) for one in sets for pair in combinations(one, 2)}
        conflicts = {pair for pair in map(frozenset, combinations(models, 2)) if pair not in together}
        return Coexistence(_slots(models, conflicts, {}, sets), one_port=frozenset().union(*(one_port & planned)))
    groups = _with_default(settings.groups, models)
    owner = {member: group for group in groups for member in group.members}
    conflicts = {
        frozenset((one, other))
        for one, other in combinations(models, 2)
        if _unloads(owner[one], owner[other]) and _unloads(owner[other], owner[one])
    }
    added = one_port - conflicts
    one_way = tuple(
        (one.id, other.id)
        for one in groups
        for other in groups
        if one is not other and one.members and other.members and _unloads(one, other) and not _unloads(other, one)
    )
    names = {member: group.id for group in groups for member in group.members}
    return Coexistence(_slots(models, conflicts | added, names, None), one_way, frozenset().union(*added))


def _of_one_port(settings: LlamaSwapSettings) -> set[frozenset[str]]:
    """Pairs whose servers listen on the same address: only one of the two can run."""
    fixed = {name: address for name, model in settings.models.items() if (address := model.fixed_address) is not None}
    return {frozenset(pair) for pair in combinations(fixed, 2) if fixed[pair[0]] == fixed[pair[1]]}


def _with_default(groups: Sequence[Group], models: Iterable[str]) -> list[Group]:
    grouped = {member for group in groups for member in group.members}
    return [*groups, Group(DEFAULT_GROUP, tuple(model for model in models if model not in grouped))]


def _unloads(group: Group, other: Group) -> bool:
    """Whether loading a member of `group` unloads (other) members of `other`."""
    return group.swap if group is other else group.exclusive and not other.persistent


def _slots(
    models: Sequence[str], conflicts: set[frozenset[str]], groups: Mapping[str, str],
    sets: Sequence[frozenset[str]] | None,
) -> tuple[PlannedSlot, ...]:  # fmt: skip
    found: list[PlannedSlot] = []
    for members in _components(models, conflicts):
        if len(members) == 1:
            continue
        together: tuple[tuple[str, ...], ...] = ()
        if any(frozenset(pair) not in conflicts for pair in combinations(members, 2)):
            allowed = _restricted(sets, members) if sets is not None else _cliques(members, conflicts)
            together = tuple(tuple(sorted(one)) for one in allowed if len(one) > 1)
        found.append(PlannedSlot(_unused(_slot_name(members, groups), found), tuple(members), together))
    return tuple(found)


def _components(models: Sequence[str], conflicts: set[frozenset[str]]) -> list[list[str]]:
    neighbours: dict[str, set[str]] = {model: set() for model in models}
    for one, other in map(tuple, conflicts):
        neighbours[one].add(other)
        neighbours[other].add(one)
    left, found = dict.fromkeys(models), []
    while left:
        reached, waiting = set(), [next(iter(left))]
        while waiting:
            model = waiting.pop()
            if model not in reached:
                reached.add(model)
                waiting += neighbours[model]
        found.append(sorted(reached))
        for model in reached:
            del left[model]
    return found


def _restricted(sets: Sequence[frozenset[str]], members: Iterable[str]) -> list[frozenset[str]]:
    """The sets within these models, without those that another one includes."""
    within = list(dict.fromkeys(one & frozenset(members) for one in sets))
    return [one for one in within if not any(one < other for other in within)]


def _cliques(members: Sequence[str], conflicts: set[frozenset[str]]) -> list[frozenset[str]]:
    """The largest sets without a conflict (Bron-Kerbosch). Groups give few: one member of each that swaps."""
    fits = {
        one: {other for other in members if other != one and frozenset((one, other)) not in conflicts}
        for one in members
    }
    found: list[frozenset[str]] = []

    def extend(chosen: frozenset[str], candidates: set[str], excluded: set[str]) -> None:
        if not candidates and not excluded:
            found.append(chosen)
            if len(found) > MAX_SETS:
                raise ConfigError([
                    f"groups: more than {MAX_SETS} combinations of models may be loaded together; give each model "
                    "its `memory` in Stoker instead: then as many are loaded as fit"
                ])  # fmt: skip
        pivot = max(candidates | excluded, key=lambda one: len(fits[one] & candidates), default="")
        for model in sorted(candidates - fits.get(pivot, set())):
            extend(chosen | {model}, candidates & fits[model], excluded & fits[model])
            candidates = candidates - {model}
            excluded = excluded | {model}

    extend(frozenset(), set(members), set())
    return sorted(found, key=sorted)


def _slot_name(members: Sequence[str], groups: Mapping[str, str]) -> str:
    owners = {groups.get(member, DEFAULT_GROUP) for member in members} - {DEFAULT_GROUP}
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", owners.pop()).strip("-") if len(owners) == 1 else ""
    return plain[:64] or MAIN


def _unused(name: str, found: Sequence[PlannedSlot]) -> str:
    taken = {slot.name for slot in found}
    return next(one for one in (name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))) if one not in taken)
