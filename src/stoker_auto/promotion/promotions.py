"""Moves aliases to other serves.

promote   1. the alias and the serve exist, and the serve may be used
          2. the evidence: a passed run of the alias's gate, unchanged since, on this serve; or force, with a reason
          3. saved on disk, then in effect for every new request; requests under way stay where they are
watch     for `watch` seconds; see `watch`
roll back the model got worse, or the watch proved nothing and `if_undecided` is "back": the alias points again to the
          serve that it pointed to before
end       a reload removed the serve or the alias: the promotion is forgotten
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from stoker.domain.decision import Decision
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.events import AliasMoved, MoveCause, Notify, PromotionWatchEnded, RollbackNotSaved
from stoker.domain.gate import Alias, Gate, IfUndecided, MovedAlias, Override
from stoker.domain.nearest import nearest
from stoker.domain.protocols import Clock, Leases
from stoker.domain.run import Finding, Outcome, Run
from stoker.domain.serve import Serve
from stoker.request.decide.aliases import resolve_aliases
from stoker_auto.promotion.gate_evidence import check_evidence
from stoker_auto.promotion.watch import PromotionWatch


class OverrideStore(Protocol):
    """Where overrides survive a restart."""

    def read(self) -> dict[str, Override]: ...

    def write(self, overrides: dict[str, Override]) -> None: ...


class Promotions:
    """Owns one task per watched promotion; `close` ends them. `find_run(id)` returns a stored result, or None."""

    def __init__(
        self,
        store: OverrideStore,
        leases: Leases,
        clock: Clock,
        notify: Notify,
        find_run: Callable[[str], Run | None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._notify = notify
        self._find_run = find_run
        self._aliases: dict[str, Alias] = {}
        self._serves: dict[str, Serve] = {}
        self._gates: dict[str, Gate] = {}
        self._overrides = store.read()
        self._watches: dict[str, PromotionWatch] = {}

    # -- configuration -----------------------------------------------------------------------------------------------

    def configure(self, aliases: tuple[Alias, ...], serves: tuple[Serve, ...], gates: tuple[Gate, ...]) -> None:
        """What was promoted to a serve that is gone is without effect, until `end_lost` ends it."""
        self._aliases = {alias.name: alias for alias in aliases}
        self._serves = {serve.name: serve for serve in serves}
        self._gates = {gate.name: gate for gate in gates}
        for one in self.lost(aliases, serves):
            if one.alias in self._watches:
                self._watches.pop(one.alias).close()

    def lost(self, aliases: Iterable[Alias], serves: Iterable[Serve]) -> list[Override]:
        """The promotions whose alias or serve is not among these."""
        names, known = {alias.name for alias in aliases}, {serve.name for serve in serves}
        return [one for one in self._overrides.values() if one.alias not in names or one.serve not in known]

    async def end_lost(self) -> list[Override]:
        """End those that `configure` has left without their alias or serve, with their watches. They do not come back
        with it.
        """
        lost = self.lost(self._aliases.values(), self._serves.values())
        if not lost:
            return []
        kept = {name: one for name, one in self._overrides.items() if one not in lost}
        try:
            await self._move(kept)
        except StokerError as error:
            self._overrides = kept
            for one in lost:
                self._notify(RollbackNotSaved(one.serve, error.message))
        for one in lost:
            if (alias := self._aliases.get(one.alias)) is not None:
                self._notify(AliasMoved(one.alias, alias.serve, one.serve, MoveCause.ENDED))
        return lost

    @property
    def is_watching(self) -> bool:
        return bool(self._watches)

    def serve_by_alias(self) -> dict[str, str]:
        """The serve of each alias, now."""
        moved = {name: one.serve for name, one in self._overrides.items()}
        return resolve_aliases(self._aliases.values(), moved, self._serves.values())

    def moved(self) -> dict[str, MovedAlias]:
        """The aliases that were moved, by name."""
        now, watches = self._clock.now(), self._watches
        return {
            name: MovedAlias(one, max(0.0, watches[name].until - now) if name in watches else None)
            for name, one in self._overrides.items()
        }

    # -- moving ------------------------------------------------------------------------------------------------------

    async def promote(self, alias: str, serve: str, evidence: str, reason: str, force: bool) -> dict[str, Any]:
        """Move an alias. `evidence` is the id of a gate's run.

        Raises ClientError: 404 (no such alias or serve), 409 (no change or evidence), 400 (forced without a reason);
        StokerError `state_unusable` if it cannot be saved. Nothing moves then.
        """
        configured, target = self._alias(alias), self._serve(serve)  # 1
        before = self.serve_by_alias()[alias]
        if before == serve:
            raise ClientError(f"alias '{alias}' already points to serve '{serve}'", code="no_change", status=409)
        if force and not reason:
            text = "a forced promotion needs a reason, which is recorded with it: `--reason TEXT`"
            raise ClientError(text, code="reason_missing", param="reason")
        if target.needs_force and not force:
            state = f"{target.status.value} ({target.reason})"
            text = f"serve '{serve}' is {state}: promote it with force and a reason, or not at all"
            raise ClientError(text, code="needs_force", status=409)
        if not force:
            gate = None if configured.gate is None else self._gates[configured.gate]
            run = self._find_run(evidence) if gate is not None and evidence else None
            check_evidence(configured, gate, serve, evidence, run)  # 2
        override = Override(alias, serve, before, self._clock.wall(), "" if force else evidence, reason)
        await self._move({**self._overrides, alias: override})  # 3
        self._notify(AliasMoved(alias, serve, before, MoveCause.PROMOTED, reason))
        if configured.watch > 0:
            self._watches[alias] = PromotionWatch(configured, override, self._leases, self._clock, self._watch_ended)
        return {"alias": alias, "serve": serve, "previous": before, "watch": configured.watch}

    async def reset(self, alias: str) -> dict[str, Any]:
        """Point an alias to its configured serve. Raises ClientError 404, 409 (it does already)."""
        configured = self._alias(alias)
        if alias not in self._overrides:
            text = f"alias '{alias}' already points to the serve that the configuration names"
            raise ClientError(text, code="no_change", status=409)
        before = self.serve_by_alias()[alias]
        await self._move({name: one for name, one in self._overrides.items() if name != alias})
        self._notify(AliasMoved(alias, configured.serve, before, MoveCause.RESET))
        return {"alias": alias, "serve": configured.serve, "previous": before}

    async def _move(self, overrides: dict[str, Override]) -> None:
        try:
            await asyncio.to_thread(self._store.write, overrides)
        except OSError as error:
            text = (
                f"the promotion cannot be saved ({error.strerror}), so the alias was not moved: "
                "check the disk of the state directory"
            )
            raise StokerError(text, code="state_unusable") from error
        for alias in self._overrides.keys() | overrides.keys():
            if self._overrides.get(alias) != overrides.get(alias) and alias in self._watches:
                self._watches.pop(alias).close()
        self._overrides = overrides

    def _alias(self, name: str) -> Alias:
        found = self._aliases.get(name)
        if found is None:
            raise ClientError(_unknown("alias", name, self._aliases), code="unknown_alias", status=404, param="alias")
        return found

    def _serve(self, name: str) -> Serve:
        found = self._serves.get(name)
        if found is None:
            raise ClientError(_unknown("serve", name, self._serves), code="unknown_serve", status=404, param="serve")
        return found

    # -- watching ----------------------------------------------------------------------------------------------------

    def observe(self, decision: Decision) -> None:
        """A request ended."""
        watch = self._watches.get(decision.model)
        if watch is not None:
            watch.observe(decision)

    def close(self) -> None:
        """Nothing is watched any more; what was promoted stays."""
        while self._watches:
            self._watches.popitem()[1].close()

    async def _watch_ended(self, watch: PromotionWatch, finding: Finding) -> None:
        alias, override = watch.alias.name, watch.override
        if self._watches.get(alias) is not watch:
            return
        del self._watches[alias]
        goes_back = finding.outcome is Outcome.FAILED or (
            finding.outcome is Outcome.UNDECIDED and watch.alias.if_undecided is IfUndecided.BACK
        )
        if goes_back:
            overrides = {name: one for name, one in self._overrides.items() if name != alias}
            configured = self._aliases[alias].serve if alias in self._aliases else watch.alias.serve
            previous = override.previous if override.previous in self._serves else configured
            if previous != configured:
                now = self._clock.wall()
                overrides[alias] = Override(alias, previous, override.serve, now, "", finding.observed)
            try:
                await self._move(overrides)
            except StokerError as error:  # better a promotion that is forgotten at the next start than a broken alias
                self._overrides = overrides
                self._notify(RollbackNotSaved(previous, error.message))
            reason = f"{finding.name}: {finding.observed}"
            self._notify(AliasMoved(alias, previous, override.serve, MoveCause.ROLLED_BACK, reason))
        self._notify(PromotionWatchEnded(override, finding, goes_back))


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> str:
    near = nearest(name, known)
    listed = f"known: {', '.join(known)}" if known else f"none is configured: add [{kind}.NAME]"
    hint = f"did you mean {near!r}?" if near else listed
    return f"there is no {kind} '{name[:100]}'; {hint}"
