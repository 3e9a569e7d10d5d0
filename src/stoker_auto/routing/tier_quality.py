"""What is known about the tiers: measured, identified, graded, suspected, demoted.

Everything that changes it is an event, a method named `on_...`. Everything else only reads: the properties are views.

    on_measured      a quality profile was read            on_alarm      checked answers of a tier became worse
    on_configured    serves were configured anew           on_demoted    after an alarm, its preflight failed
    on_started       a serve runs, and is looked at        on_graded     a live answer was graded
    on_identified    a running serve was fingerprinted     on_restored   grades and demotions of an earlier run
    on_stopped       a serve stopped                       on_judging    which grades of the judge count

Of a serve with replicas each one is started, identified and stopped by itself. The serve is what all of them are.
All methods belong to the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from types import MappingProxyType

from stoker.domain.run import Fingerprint
from stoker.domain.tier import Demotion, GradedRow, ProfileRow, Tier
from stoker_auto.decide.demotion import holds
from stoker_auto.decide.standing import Standing, standing
from stoker_lab.judging import Judging

Key = tuple[str, str]
"""Tier and task class."""


class TierQuality:
    """Lives as long as the program. Configurations of routing come and go; `on_routing_ended` says that one went."""

    def __init__(self, rows: Mapping[Key, ProfileRow] | None = None) -> None:
        """`rows`: the quality profile; None: none was read yet."""
        self._has_profile = rows is not None
        self._rows: dict[Key, ProfileRow] = dict(rows or {})
        self._fingerprints: dict[str, Fingerprint] = {}
        self._verified: set[str] = set()
        self._running: dict[str, dict[str, Fingerprint | None]] = {}
        """By serve and replica; None: not identified yet."""
        self._suspects: set[Key] = set()
        self._grades: dict[Key, GradedRow] = {}
        self._judging = Judging()
        self._demotions: dict[Key, Demotion] = {}
        self._slowest = _slowest(self._rows)
        self.rows: Mapping[Key, ProfileRow] = MappingProxyType(self._rows)
        self.fingerprints: Mapping[str, Fingerprint] = MappingProxyType(self._fingerprints)
        """By serve: what it was when it was last identified, if it is still configured as it was then; the empty one
        if its replicas differ.
        """
        self.grades: Mapping[Key, GradedRow] = MappingProxyType(self._grades)
        """Also those that do not count: see `grade_problem`."""
        self.demotions: Mapping[Key, Demotion] = MappingProxyType(self._demotions)

    @property
    def verified(self) -> Set[str]:
        """Serves whose fingerprint is that of every process that runs now."""
        return frozenset(self._verified)

    # -- events: the only writers ------------------------------------------------------------------------------------

    def on_measured(self, rows: Mapping[Key, ProfileRow]) -> None:
        """A profile was read. A row that changed clears the suspicion of its tier, and grades from before it."""
        before, had_profile = dict(self._rows), self._has_profile
        self._rows.clear()
        self._rows.update(rows)
        self._has_profile = True
        self._slowest = _slowest(rows)
        self._suspects = {key for key in self._suspects if rows.get(key) == before.get(key)}
        if had_profile:
            for key in [key for key in self._grades if key in rows and rows[key] != before.get(key)]:
                del self._grades[key]
        self._drop_old_grades()

    def on_configured(self, unchanged: Mapping[str, Fingerprint], names: Collection[str] = ()) -> None:
        """Serves were configured. `unchanged`: those that are still started as they were when last identified; `names`:
        all of them. What runs of the others is not known.
        """
        self._fingerprints.clear()
        self._fingerprints.update(unchanged)
        self._verified.intersection_update(unchanged)
        self._running = {
            serve: found if serve in unchanged else dict.fromkeys(found)
            for serve, found in self._running.items()
            if serve in unchanged or serve in names
        }
        for serve in self._running:
            self._combine(serve)

    def on_routing_ended(self) -> None:
        """No tier is configured any more. Grades and demotions stay, for the next configuration that has tiers."""
        self._has_profile = False
        for known in (
            self._rows, self._fingerprints, self._verified, self._running, self._suspects, self._slowest,
        ):  # fmt: skip
            known.clear()

    def on_started(self, serve: str, replica: str = "") -> None:
        """A serve, or this replica of it, runs. What it is will be found out."""
        self._running.setdefault(serve, {})[replica or serve] = None
        self._combine(serve)

    def on_identified(self, serve: str, fingerprint: Fingerprint, replica: str = "") -> None:
        """A serve, or this replica of it, runs, and this is what it is."""
        self._running.setdefault(serve, {})[replica or serve] = fingerprint
        self._combine(serve)

    def on_stopped(self, serve: str, replica: str = "") -> None:
        self._running.get(serve, {}).pop(replica or serve, None)
        self._combine(serve)

    def _combine(self, serve: str) -> None:
        """What the serve is, as all its replicas are."""
        running = self._running.get(serve, {}).values()
        if found := [one for one in running if one is not None]:
            is_one_model = len({(one.identity, one.execution) for one in found}) == 1
            self._fingerprints[serve] = found[-1] if is_one_model else Fingerprint()
        if running and all(one is not None for one in running):
            self._verified.add(serve)
        else:
            self._verified.discard(serve)

    def on_alarm(self, tier: str, task_class: str) -> None:
        """Checked answers of a tier became worse. It is suspect until it is measured again."""
        self._suspects.add((tier, task_class))

    def on_judging(self, judging: Judging) -> None:
        """The judge was configured, identified or measured."""
        self._judging = judging

    def on_graded(self, grades: GradedRow) -> None:
        """A live answer was graded. `grades`: all grades of that tier and class so far."""
        self._grades[grades.tier, grades.task_class] = grades

    def on_demoted(self, demotion: Demotion) -> None:
        self._demotions[demotion.tier, demotion.task_class] = demotion

    def on_restored(
        self, grades: Mapping[Key, GradedRow] | None = None, demotions: Mapping[Key, Demotion] | None = None
    ) -> None:
        """These were on disk. Grades that are older than what a suite measured are dropped."""
        self._grades.update(grades or {})
        self._demotions.update(demotions or {})
        self._drop_old_grades()

    def _drop_old_grades(self) -> None:
        for key in [key for key, row in self._grades.items() if key in self._rows and self._rows[key].at > row.at]:
            del self._grades[key]

    # -- questions ---------------------------------------------------------------------------------------------------

    def standing(self, tier: Tier, task_class: str, is_high_risk: bool, cloud_model: str | None = None) -> Standing:
        """The verdict on a tier at a class, with its reasons. `cloud_model`: the model behind a cloud tier; grades of
        another one do not count.
        """
        key, serve = (tier.name, task_class), tier.serve
        row, fingerprint = self._rows.get(key), self._fingerprints.get(serve)
        demotion = self._demotions.get(key) if self._demotions else None
        failed = demotion.checks if demotion is not None and holds(demotion, row, fingerprint) else ()
        grades = self._grades.get(key) if self._grades else None
        if grades is not None and ((cloud_model and cloud_model != grades.identity) or self._judging.problem(grades)):
            grades = None
        is_suspect = key in self._suspects
        return standing(
            tier, task_class, row, fingerprint, is_high_risk, serve in self._verified, is_suspect, grades, failed
        )

    def current_fingerprint(self, serve: str) -> Fingerprint | None:
        """What the running serve is; None: it does not run, or was not identified. `parts` are left out."""
        found = self._fingerprints.get(serve) if serve in self._verified else None
        return Fingerprint(found.identity, found.execution) if found is not None and found.identity else None

    def is_verified(self, serve: str) -> bool:
        """Whether its fingerprint is that of every process that runs now."""
        return serve in self._verified

    def differing(self, serve: str, found: Fingerprint) -> Fingerprint | None:
        """What a running replica is that is not as `found`; None: all that are identified are."""
        running = self._running.get(serve, {}).values()
        mine = found.identity, found.execution
        return next((one for one in running if one is not None and (one.identity, one.execution) != mine), None)

    def grade_problem(self, key: Key) -> str:
        """Why the grades of a tier at a class do not count; empty: they do, or there are none."""
        grades = self._grades.get(key)
        return "" if grades is None else self._judging.problem(grades)

    def is_suspect(self, key: Key) -> bool:
        return key in self._suspects

    def is_demoted(self, key: Key, serve: str) -> bool:
        """Whether a demotion of this tier and class holds for what its serve is now."""
        demotion = self._demotions.get(key)
        return demotion is not None and holds(demotion, self._rows.get(key), self._fingerprints.get(serve))

    def slowest_answer(self, tier: str) -> float | None:
        """The longest of the median seconds per class that were measured; None: nothing was measured."""
        return self._slowest.get(tier)


def _slowest(rows: Mapping[Key, ProfileRow]) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows.values():
        found[row.tier] = max(found.get(row.tier, 0.0), row.latency or 0.0)
    return found
