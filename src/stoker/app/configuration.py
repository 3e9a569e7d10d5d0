"""The configuration that is in effect, and what follows from it alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stoker.domain.access import Settings
from stoker.domain.cluster import Cluster, on_cluster
from stoker.domain.serve import Serve, Slot, in_box, replica_name, replicas_of, slots_of
from stoker.engines.masks import MachineCards, masked, uses_vulkan
from stoker.engines.placement import placed
from stoker.fleet.warm.keeper import budget
from stoker.request.decide.aliases import with_aliases, with_choices
from stoker.request.decide.names import UNKNOWN_STATES, Names, ServeStates
from stoker.store.profile import Rows, configured_rows


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that a reload may change."""

    settings: Settings
    rows: Rows
    warm_budget: int
    """Bytes of host memory for the warm pool."""
    machine: MachineCards = field(default_factory=MachineCards)
    """Its devices, for the slots that name some."""


def first_configuration(settings: Settings) -> Configuration:
    """Of a start. Raises StokerError if the quality profile cannot be read."""
    rows = configured_rows(settings.router, settings.paths.state)
    return Configuration(with_contexts(settings), rows, budget(settings.warm), machine_for(settings))


def next_configuration(old: Configuration, settings: Settings) -> Configuration:
    """Of a reload. Raises as `first_configuration`.

    `memory = "auto"` means what was free at the start: how much is free now depends on what is warm already.
    """
    rows = configured_rows(settings.router, settings.paths.state)
    is_same = settings.warm.memory == old.settings.warm.memory
    warm_budget = old.warm_budget if is_same else budget(settings.warm)
    return Configuration(with_contexts(settings), rows, warm_budget, machine_for(settings))


def machine_for(settings: Settings) -> MachineCards:
    """The devices of this machine, if a slot names some; blocks."""
    if not any(slot.devices for slot in settings.slots):
        return MachineCards()
    from stoker.fleet.memory.cards import this_machine

    return this_machine(any(uses_vulkan(serve) for serve in settings.serves))


def with_contexts(settings: Settings) -> Settings:
    """The settings with a number for each `context = "auto"`. See `fleet.memory.fit.auto_context`; blocks."""
    if not any(serve.auto_context for serve in settings.serves):
        return settings
    from stoker.fleet.memory.devices import machine
    from stoker.fleet.memory.fit import check

    return replace(settings, serves=check.with_contexts(settings.serves, settings.slots, machine()))


class ActiveConfiguration:
    """Holds the configuration in effect. A reload replaces it once all parts follow the new one."""

    def __init__(self, configuration: Configuration) -> None:
        self._current = configuration

    @property
    def current(self) -> Configuration:
        return self._current

    @property
    def settings(self) -> Settings:
        return self._current.settings

    def replace(self, configuration: Configuration) -> None:
        self._current = configuration

    def slot(self, name: str | None) -> Slot | None:
        """See `Settings.slot`."""
        return self.settings.slot(name)

    def cluster(self, name: str) -> Cluster | None:
        """The cluster of that name; None: there is none."""
        return next((cluster for cluster in self.settings.clusters if cluster.name == name), None)


def placed_serves(settings: Settings, machine: MachineCards | None = None) -> list[Serve]:
    """The serves for the fleet: each replica by itself, as its slot wants it; see `_in_slot`. `machine`: None to look
    now, which blocks.
    """
    machine = machine_for(settings) if machine is None else machine
    clusters = {cluster.name: cluster for cluster in settings.clusters}
    paths = settings.paths
    found = []
    for serve in settings.serves:
        here = placed(serve, paths.vault) if paths.placement else serve
        for plain, local in zip(replicas_of(serve), replicas_of(here), strict=True):
            found.append(_in_slot(plain, local, settings, clusters, machine))
    return found


def _in_slot(
    plain: Serve, local: Serve, settings: Settings, clusters: Mapping[str, Cluster], machine: MachineCards
) -> Serve:
    """One replica: in a cluster it is a job; here it sees only its slot's devices, and has its caches in the vault if
    that is used (`local`).
    """
    slot = settings.slot(plain.slot)
    if slot is not None and slot.box:
        return in_box(plain, slot)
    if slot is not None and slot.cluster is not None:
        parts = [settings.slot(name) for name in slots_of(slot.name)]
        return on_cluster(plain, [part for part in parts if part is not None], clusters[slot.cluster])
    return masked(local, slot, machine)


def placed_slots(settings: Settings) -> list[Slot]:
    """The slots for the fleet: where they name a serve with several slots, they mean its replica there."""
    several = {serve.name for serve in settings.serves if len(serve.slots) > 1}
    if not several:
        return list(settings.slots)

    def here(name: str | None, slot: Slot) -> str | None:
        return replica_name(name, slot.name) if name is not None and name in several else name

    return [
        replace(
            slot,
            baseline=here(slot.baseline, slot),
            idle_serve=here(slot.idle_serve, slot),
            together=tuple(frozenset(str(here(name, slot)) for name in group) for group in slot.together),
        )
        for slot in settings.slots
    ]


def names_of(settings: Settings, serves: Iterable[Serve], states: ServeStates = UNKNOWN_STATES) -> Names:
    """The model names that requests may use: those of `serves`, with their aliases, and those of tiers.

    `states`: what aliases for several serves choose by. Clouds have no name if `allow_cloud` is off.
    """
    router, choices = settings.router, settings.alias_choices
    serves = with_choices(serves, choices)
    lists_aliases = settings.front_door.list_aliases
    if router is None:
        return Names(serves, choices, states, lists_aliases)
    forbidden = {tier.serve for tier in router.tiers if tier.cloud and not router.allow_cloud}
    tiers = {tier.name: tier.serve for tier in router.tiers if tier.name != tier.serve}
    allowed = (serve for serve in with_aliases(serves, tiers) if serve.name not in forbidden)
    return Names(allowed, choices, states, lists_aliases)
