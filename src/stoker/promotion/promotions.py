"""Aliases that move by evidence, and come back by themselves.

promote   1. the alias and the serve are there, the serve may be used
          2. the evidence: a gate's run that passed, of just this serve and this gate; or force, with a reason
          3. on disk, then for every new request; requests under way end where they are
watch     until `watch` is over: the canary every `check_every` while the serve is loaded, and every live request
return    a canary that fails by k of n, or live failures that have become usual: the alias means what it meant before
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from stoker.domain.decision import Decision
from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.gate import Alias, Override
from stoker.domain.nearest import nearest
from stoker.domain.protocols import Clock, Leases
from stoker.domain.run import Finding, Kind, Outcome, Run
from stoker.domain.serve import Serve
from stoker.exchange.leasing import leased
from stoker.measure.canary.steadiness import SteadinessCheck
from stoker.measure.requests.client import ModelClient
from stoker.measure.statistics.stats import Cusum
from stoker.request.decide.aliases import meant, with_aliases

FAULTS = frozenset(("upstream_failed", "stalled", "bug"))
"""Outcomes of requests that are the serve's doing."""
USUAL, WORSE, LIMIT = 0.02, 0.2, 4.0
"""Of live failures: two straight ones raise the alarm, or one in five before long."""
_ASKED_IN = (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)


class Keeping(Protocol):
    """Where overrides survive a restart."""

    def read(self) -> dict[str, Override]: ...

    def write(self, overrides: dict[str, Override]) -> None: ...


class Promotions:
    """`changed(serves)` is called with the serves as requests are to see them; `note(what, serve, text)` tells people;
    `evidence(id)` finds a run; `closed(override, finding, went_back)` is called when a watch is over.
    """

    def __init__(
        self,
        keeping: Keeping,
        leases: Leases,
        clock: Clock,
        changed: Callable[[tuple[Serve, ...]], None],
        note: Callable[[str, str, str], None],
        evidence: Callable[[str], Run | None],
        closed: Callable[[Override, Finding, bool], None] = lambda override, finding, went_back: None,
    ) -> None:
        self._keeping = keeping
        self._leases = leases
        self._clock = clock
        self._changed = changed
        self._note = note
        self._evidence = evidence
        self._closed = closed
        self._aliases: dict[str, Alias] = {}
        self._serves: dict[str, Serve] = {}
        self._overrides = keeping.read()
        self._watches: dict[str, _Watch] = {}

    # -- configuration -----------------------------------------------------------------------------------------------

    def configure(self, aliases: tuple[Alias, ...], serves: tuple[Serve, ...]) -> tuple[Serve, ...]:
        """The serves as requests are to see them. An override stays as long as its alias and its serve do."""
        self._aliases = {alias.name: alias for alias in aliases}
        self._serves = {serve.name: serve for serve in serves}
        for name in [name for name in self._watches if name not in self._aliases]:
            self._watches.pop(name).close()
        return self.serves

    @property
    def serves(self) -> tuple[Serve, ...]:
        """Each with the aliases that mean it now."""
        return with_aliases(self._serves.values(), self.meaning())

    def meaning(self) -> dict[str, str]:
        """Alias to serve, as it is now."""
        return meant(self._aliases.values(), self._overrides, self._serves.values())

    def status(self) -> list[dict[str, Any]]:
        """For /status: each alias, what it means, and how it came to."""
        meaning = self.meaning()
        found = []
        for alias in self._aliases.values():
            override = self._overrides.get(alias.name)
            is_moved = override is not None and override.serve == meaning[alias.name]
            watch = self._watches.get(alias.name)
            found.append({
                "alias": alias.name, "serve": meaning[alias.name], "configured": alias.serve, "gate": alias.gate,
                "promoted_at": override.at if override is not None and is_moved else None,
                "evidence": override.evidence if override is not None and is_moved else None,
                "reason": override.reason if override is not None and is_moved else None,
                "watched_for": None if watch is None else max(0.0, watch.until - self._clock.now()),
            })  # fmt: skip
        return found

    # -- moving ------------------------------------------------------------------------------------------------------

    async def promote(self, alias: str, serve: str, evidence: str, reason: str, force: bool) -> dict[str, Any]:
        """Move it. Raises ClientError: 404 (no such alias or serve), 409 (it means that serve already; evidence that is
        none), 400 (forced without a reason); StokerError `state_unusable` if it cannot be kept, and nothing moves then.
        """
        about, to = self._alias(alias), self._serve(serve)  # 1
        before = self.meaning()[alias]
        if before == serve:
            raise ClientError(f"alias '{alias}' means serve '{serve}' already", code="no_change", status=409)
        if force and not reason:
            text = "a promotion that is forced needs a reason: it is kept"
            raise ClientError(text, code="reason_missing", param="reason")
        if to.needs_force and not force:
            text = (
                f"serve '{serve}' is {to.status.value} ({to.reason}): promote it with force and a reason, or not at all"
            )
            raise ClientError(text, code="needs_force", status=409)
        if not force:
            self._check_evidence(about, serve, evidence)  # 2
        override = Override(alias, serve, before, self._clock.wall(), "" if force else evidence, reason)
        await self._move({**self._overrides, alias: override})  # 3
        self._note("promoted", serve, f"alias {alias} means it now, {before} before{f': {reason}' if reason else ''}")
        self._watch(about, override)
        return {"alias": alias, "serve": serve, "previous": before, "watch": about.watch}

    async def reset(self, alias: str) -> dict[str, Any]:
        """As the file says. Raises ClientError 404, 409 (it does already)."""
        about = self._alias(alias)
        if alias not in self._overrides:
            text = f"alias '{alias}' means what the configuration says"
            raise ClientError(text, code="no_change", status=409)
        before = self.meaning()[alias]
        await self._move({name: one for name, one in self._overrides.items() if name != alias})
        self._note("reset", about.serve, f"alias {alias} means it again, {before} before")
        return {"alias": alias, "serve": about.serve, "previous": before}

    def _check_evidence(self, alias: Alias, serve: str, evidence: str) -> None:
        if alias.gate is None:
            text = f"alias '{alias.name}' has no gate: give it one in the configuration, or use force and a reason"
            raise ClientError(text, code="no_gate", status=409)
        run = self._evidence(evidence) if evidence else None
        why = ""
        if run is None:
            why = f"there is no result '{evidence[:80]}'" if evidence else "it names none"
        elif run.kind is not Kind.GATE or run.subject.serve != serve:
            why = f"{run.id} is a {run.kind.value} of serve '{run.subject.serve}'"
        elif run.outcome is not Outcome.PASSED:
            failed = [finding.name for finding in run.findings if finding.outcome is not Outcome.PASSED]
            why = f"{run.id} {run.outcome.value}: {', '.join(failed)}"
        elif (gate := run.setting("gate")) != alias.gate:
            why = f"{run.id} is of gate '{gate}'"
        if why:
            text = f"no evidence that serve '{serve}' meets gate '{alias.gate}': {why}"
            text += f"; run `stoker gate {serve} --for {alias.name}`"
            raise ClientError(text, code="no_evidence", status=409)

    async def _move(self, overrides: dict[str, Override]) -> None:
        try:
            await asyncio.to_thread(self._keeping.write, overrides)
        except OSError as error:
            text = f"the promotion cannot be kept ({error.strerror}), and nothing was moved: check its disk"
            raise StokerError(text, code="state_unusable") from error
        for alias in self._overrides.keys() | overrides.keys():
            if self._overrides.get(alias) != overrides.get(alias) and alias in self._watches:
                self._watches.pop(alias).close()
        self._overrides = overrides
        self._changed(self.serves)

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
        if watch is not None and decision.serve == watch.override.serve:
            watch.observe(decision)

    def close(self) -> None:
        """Nothing is watched any more; what was promoted stays."""
        while self._watches:
            self._watches.popitem()[1].close()

    def _watch(self, alias: Alias, override: Override) -> None:
        if alias.watch > 0:
            self._watches[alias.name] = _Watch(self, alias, override, self._leases, self._clock)

    async def over(self, watch: _Watch, finding: Finding) -> None:
        """A watch ended: back if it found something."""
        alias, override = watch.alias.name, watch.override
        if self._watches.get(alias) is not watch:
            return
        del self._watches[alias]
        went_back = finding.outcome is Outcome.FAILED
        if went_back:
            back = {name: one for name, one in self._overrides.items() if name != alias}
            if override.previous != watch.alias.serve:
                back[alias] = Override(alias, override.previous, override.serve, self._clock.wall(), "", finding.seen)
            try:
                await self._move(back)
            except StokerError as error:  # better a promotion that is forgotten at the next start than a broken alias
                self._overrides = back
                self._changed(self.serves)
                self._note("rollback", override.previous, f"it is not on disk: {error.message}")
            text = f"alias {alias} means it again: {override.serve} failed its {finding.name}: {finding.seen}"
            self._note("rolled back", override.previous, text)
        self._closed(override, finding, went_back)


class _Watch:
    """Looks after one promotion until its time is over, or it is closed."""

    def __init__(self, promotions: Promotions, alias: Alias, override: Override, leases: Leases, clock: Clock) -> None:
        self.alias = alias
        self.override = override
        self.until = clock.now() + alias.watch
        self._promotions = promotions
        self._leases = leases
        self._clock = clock
        self._live = Cusum(USUAL, WORSE, LIMIT)
        self._steadiness = SteadinessCheck()
        self._alarm = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"watch-{alias.name}")

    def close(self) -> None:
        """At most what is just asked is broken off."""
        self._task.cancel()

    def observe(self, decision: Decision) -> None:
        """The owner of the task is told by the event: a decision is sealed where nothing may wait."""
        is_fault = decision.outcome in FAULTS
        if (is_fault or decision.outcome == "served") and self._live.feed(is_fault):
            self._alarm.set()

    async def _run(self) -> None:
        finding = Finding("canary", Outcome.PASSED, "nothing was found")
        while finding.outcome is not Outcome.FAILED and self._clock.now() < self.until:
            if self._alarm.is_set():
                finding = Finding("live requests", Outcome.FAILED, f"failures among the last {self._live.n} requests")
                break
            finding = await self._look() or finding
            if finding.outcome is not Outcome.FAILED:
                await self._rest()
        await asyncio.shield(self._promotions.over(self, finding))

    async def _look(self) -> Finding | None:
        """None: the serve is not loaded; nobody loads it for this."""
        name = self.override.serve
        if self._leases.target(name) is None:
            return None
        try:
            async with leased(self._leases, name) as lease:
                speaks = lease.target.speaks or frozenset((Dialect.CHAT,))
                talk = ModelClient(lease.target, next((d for d in _ASKED_IN if d in speaks), Dialect.CHAT))
                try:
                    return await self._steadiness.check(talk)
                finally:
                    talk.close()
        except StokerError:  # no place just now, or it was taken away: the next look will have one
            return None

    async def _rest(self) -> None:
        wait = min(self.alias.check_every, max(0.0, self.until - self._clock.now()))
        try:
            async with asyncio.timeout(wait):
                await self._alarm.wait()
        except TimeoutError:
            return


def _unknown(kind: str, name: str, known: Mapping[str, object]) -> str:
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"there is no {kind} '{name[:100]}'; {hint}"
