"""Requests that name a task instead of a model: which tiers may serve them, in what order, and what came of it.

Joins what is pure (`classify`, `standing`, `policy`, `breaker`) with what is known now: profile, fleet, clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.nearest import nearest
from stoker.domain.routing import AUTO, Router, listed
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.domain.task import DEFAULT, MAX_TEXT, UNKNOWN, Outline, Source, Task
from stoker.domain.tier import Demotion, Row, Tier
from stoker.request.decide.breaker import Breaker, State
from stoker.request.decide.demotion import holds
from stoker.request.decide.failover import Health, rule_for
from stoker.request.decide.first_byte import Pace, first_byte_timeout
from stoker.request.decide.policy import RATE_LIMITED, Look, Plan, Step, plan
from stoker.request.decide.standing import Standing, standing, worst
from stoker.routing.classifier import classify

FAR_LONGER = 16
"""Bytes for each token that makes a prompt long: from there on its size says enough."""
UNKNOWN_CLASS = "unknown_class"
"""The note of a request whose caller declared a class that is not known."""
OUTPUT = 500
"""Tokens of an answer, where nobody says how many: for the estimate of a cost."""
Classify = Callable[[Outline, str | None, Collection[str]], Task]


class Sees(Protocol):
    """What routing needs of the fleet."""

    def is_loaded(self, name: str) -> bool: ...

    def displaces(self, name: str) -> bool: ...

    def ails(self, name: str, now: float) -> str: ...


class Declared(NamedTuple):
    """What a caller says of the class of its request."""

    name: str | None = None
    """A class that there is; None: it declares none."""
    unknown: str = ""
    """What it declared and nobody knows; empty: nothing."""


class Asking(NamedTuple):
    """Who asks, and what routing may do for him. Who may ask for a choice may get any tier, but for the cloud."""

    may_use_cloud: bool = True
    speaks: Callable[[Serve], bool] = lambda serve: True
    """Whether the request can be put to that serve in some dialect."""
    output: int | None = None
    """Tokens that the caller allows for the answer."""


class Routing:
    """What is known of tiers outlives their configuration: `configure` keeps it. A request under way may speak of one
    that a reload has taken out since: nothing is kept of that.
    """

    def __init__(
        self,
        router: Router,
        serves: Iterable[Serve],
        rows: Mapping[tuple[str, str], Row],
        sees: Sees,
        now: Callable[[], float],
        classify: Classify = classify,
    ) -> None:
        self.rows: dict[tuple[str, str], Row] = dict(rows)
        self.fingerprints: dict[str, Fingerprint] = {}
        """By serve: what it was when it was last looked at, configured as it is now."""
        self.live: set[str] = set()
        """Serves whose fingerprint is that of the process that runs."""
        self.suspects: set[tuple[str, str]] = set()
        """Tier and class whose answers became worse: measured again, they are suspect no more."""
        self.graded: dict[tuple[str, str], Row] = {}
        """What live grades say; whoever grades fills it."""
        self.demoted: dict[tuple[str, str], Demotion] = {}
        """And whose preflight failed after that."""
        self._sees = sees
        self._now = now
        self._classify = classify
        self._breakers: dict[str, Breaker] = {}
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        self.router = router
        self.configure(router, serves)

    def configure(self, router: Router, serves: Iterable[Serve]) -> None:
        """A new configuration; what is known of tiers that are still there stays."""
        same = router.breaker == self.router.breaker
        self.router = router
        self._own = [(one.name, _any_of(one.words)) for one in router.classes if one.words]
        self._serves = {serve.name: serve for serve in serves}
        self._tiers = {tier.name: tier for tier in router.tiers}
        self._known = frozenset(router.known)
        self._by_folded = {name.casefold(): name for name in reversed(router.known)}
        self._names = router.names
        self._latencies = self._slowest()
        setting = router.breaker
        self._breakers = {
            tier.name: self._breakers[tier.name]
            if same and tier.name in self._breakers
            else Breaker(setting.failures, setting.window, setting.cool_down)
            for tier in router.tiers
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Model names that ask for a choice."""
        return tuple(self._names)

    @property
    def listed(self) -> tuple[str, ...]:
        """Those that a list of models shows: `auto`, and what the operator calls it."""
        return self.router.listed

    def takes(self, model: str) -> bool:
        return self.meant(model) is not None

    def meant(self, model: str) -> str | None:
        """The model name that asks for a choice, as it is configured; None: this is none. Case and blanks do not count
        in `auto` and `auto:CLASS`; aliases are taken as they are written, like names of serves.
        """
        if model in self._names:
            return model
        head, colon, rest = model.partition(":")
        if head.strip().lower() != AUTO:
            return None
        if not colon:
            return AUTO
        known = self.class_named(rest)
        return None if known is None else f"{AUTO}:{known}"

    def class_named(self, text: str) -> str | None:
        """The class that a caller means, whatever case and blanks it wrote; None: there is none."""
        name = text.strip()
        return name if name in self._known else self._by_folded.get(name.casefold())

    def no_class(self, model: str) -> ClientError:
        """For `auto:CLASS` of no class that there is."""
        name = model.partition(":")[2].strip()
        near = nearest(name, self.router.known)
        hint = f"did you mean 'auto:{near}'?" if near else f"there are {', '.join(self.router.known)}"
        return ClientError(f"there is no class '{name[:100]}'; {hint}", code="unknown_model", status=404, param="model")

    def declaration(self, model: str, header: str | None, metadata: str | None) -> Declared:
        """The class that the caller declares: by the model name, the header, or the body's metadata, in this order. One
        that is not known is passed over, and the first such name is told.
        """
        given = [text for text in (header, metadata) if text is not None and text.strip()]
        found = [self.class_named(text) for text in given]
        unknown = next((text.strip() for text, name in zip(given, found, strict=True) if name is None), "")
        by_model = self._names.get(self.meant(model) or "", "")
        return Declared(by_model or next((name for name in found if name is not None), None), unknown)

    def tier(self, name: str) -> Tier | None:
        return self._tiers.get(name)

    def serve(self, tier: Tier) -> Serve | None:
        """None: it is not configured any more."""
        return self._serves.get(tier.serve)

    def named(self, serve: str) -> Serve | None:
        """None: it is not configured."""
        return self._serves.get(serve)

    def task(self, seen: Outline, model: str, declared: str | None) -> Task:
        """The class that the model name declares goes before the one of header or body; then the operator's own words,
        in the request that told the class; then the rules.
        """
        return self.classified(seen, self.declaration(model, declared, None))

    def classified(self, seen: Outline, declared: Declared) -> Task:
        """As `task`. That a class was declared which is not known is among the notes."""
        task = self._found(seen, declared.name)
        return task._replace(notes=(UNKNOWN_CLASS, *task.notes)) if declared.unknown else task

    def _found(self, seen: Outline, declared: str | None) -> Task:
        known = self._known
        if declared in known or not self._own:
            return self._classify(seen, declared, known)
        if name := self._own_class(seen.text):
            task = self._classify(seen, declared, known) if seen.earlier else None
            if task is None or not task.back or task.name not in self.router.high_risk:
                return Task(name, Source.RULES, ("own_word",))
            return task
        task = self._classify(seen, declared, known)
        if task.back and (name := self._own_class(seen.request(task.back))):
            return Task(name, Source.RULES, ("own_word", f"earlier:{task.back}"), back=task.back)
        return task

    def _own_class(self, text: str) -> str:
        """The operator's own class whose words stand in a text; empty: none."""
        return next((name for name, words in self._own if words.search(text)), "")

    def classes_of(self, task: Task, seen: Outline) -> tuple[str, ...]:
        """The classes that a tier must be good enough at to serve this task. Of a task that could not be found: every
        high-risk class if a tool that is offered can change files, else `chat`.
        """
        if task.name != UNKNOWN:
            return (task.name,)
        return (self.router.high_risk if seen.changes_files else ()) or (DEFAULT,)

    def may_be_long(self, seen: Outline) -> bool:
        """Whether its tokens have to be counted to know its class: they are never more than its bytes."""
        return seen.tokens is None and seen.size >= self.router.long_context

    def is_counted(self, seen: Outline) -> bool:
        """Whether that is worth the time of an engine: what is far longer than long need not be counted."""
        return seen.size < FAR_LONGER * self.router.long_context

    def counted(self, seen: Outline, tokens: int | None) -> Outline:
        """As it is known once its tokens were counted; None: nobody could, and its size has to do."""
        seen = msgspec.structs.replace(seen, tokens=tokens)
        return msgspec.structs.replace(seen, is_long=seen.about >= self.router.long_context)

    def loaded(self) -> list[Serve]:
        """Those of the tiers that run here."""
        found = [self._serves.get(tier.serve) for tier in self.router.tiers if not tier.cloud]
        return [serve for serve in found if serve is not None and self._sees.is_loaded(serve.name)]

    def plan(self, task: Task, seen: Outline, asking: Asking) -> Plan:
        """Who may serve, in order, and why the others may not. Never raises. Where nobody may, and the task was taken
        for high risk only to be careful, it is what it is more likely.
        """
        made = self._planned(task, seen, asking)
        if made.steps or not task.else_ or made.pause is not None:
            return made
        more_likely = Task(task.else_, task.source, (*task.notes, f"nobody_for:{task.name}"))
        again = self._planned(more_likely, seen, asking)
        return again if again.steps else made

    def _planned(self, task: Task, seen: Outline, asking: Asking) -> Plan:
        classes = self.classes_of(task, seen)
        looks = [self._look(tier, classes, seen, asking) for tier in self.router.tiers]
        return plan(task, looks, (self.router.specialist(classes[0]) or "") if len(classes) == 1 else "", classes)

    def standing(self, tier: Tier, task_class: str) -> Standing:
        key = tier.name, task_class
        now, is_risky = self.fingerprints.get(tier.serve), task_class in self.router.high_risk
        is_live, is_suspect = tier.serve in self.live, key in self.suspects
        row, demotion = self.rows.get(key), self.demoted.get(key) if self.demoted else None
        failed = demotion.checks if demotion is not None and holds(demotion, row, now) else ()
        graded = self.graded.get(key) if self.graded else None
        if graded is not None and tier.cloud and (mark := self.mark(tier)) and mark.identity != graded.identity:
            graded = None  # of another model of its vendor
        return standing(tier, task_class, row, now, is_risky, is_live, is_suspect, graded, failed)

    def mark(self, tier: Tier) -> Fingerprint | None:
        """What its answers are of, just now. Of a cloud nothing but the model's name is known. None: nobody knows."""
        return self.mark_of(tier.serve, tier.cloud)

    def mark_of(self, name: str, cloud: bool) -> Fingerprint | None:
        """The same of any serve that routing knows."""
        serve = self._serves.get(name)
        if serve is None:
            return None
        if cloud:
            return Fingerprint(serve.served_name or serve.name)
        found = self.fingerprints.get(name) if name in self.live else None
        return Fingerprint(found.identity, found.execution) if found is not None and found.identity else None

    def learn(self, rows: Mapping[tuple[str, str], Row]) -> None:
        """A new profile. What was measured since is suspect no more, and the live grades from before count no more."""
        self.suspects = {key for key in self.suspects if rows.get(key) == self.rows.get(key)}
        for key in [key for key in self.graded if key in rows and rows[key] != self.rows.get(key)]:
            del self.graded[key]
        self.rows = dict(rows)
        self._latencies = self._slowest()

    def _slowest(self) -> dict[str, float]:
        """By tier: its longest median time to the end of an answer, of all classes that were measured."""
        found: dict[str, float] = {}
        for row in self.rows.values():
            found[row.tier] = max(found.get(row.tier, 0.0), row.latency or 0.0)
        return found

    def first_byte_timeout(self, tier: Tier, prompt: int, output: int | None, streams: bool) -> float | None:
        """Seconds that it may take for the first byte, while another tier is there; None: any. See `first_byte`."""
        usual, latency = self._paces[tier.name].usual, self._latencies.get(tier.name)
        return first_byte_timeout(tier.first_byte_timeout, usual, latency, prompt, output, streams)

    def on_first_byte(self, tier: str, seconds: float) -> None:
        """A streamed answer of it began so long after it was asked."""
        if tier in self._tiers:
            self._paces[tier].add(seconds)

    def allowed(self) -> set[tuple[str, str]]:
        """Tier and class of each row that lets a tier serve, or will once it is loaded, as it was measured."""
        found = ((key, self._tiers.get(key[0])) for key in self.rows)
        seen = ((key, self.standing(tier, key[1])) for key, tier in found if tier is not None)
        return {key for key, one in seen if one.is_proved or one.is_expected}

    def stale(self) -> list[tuple[str, str, str]]:
        """Tier, class and reason of each row that counts no longer: to be measured again."""
        found = []
        for tier_name, task_class in sorted(self.rows.keys() | self.graded.keys()):
            tier = self._tiers.get(tier_name)
            if tier is not None and (one := self.standing(tier, task_class)).is_stale:
                found.append((tier_name, task_class, one.why))
        return found

    def _look(self, tier: Tier, classes: tuple[str, ...], seen: Outline, asking: Asking) -> Look:
        """Of several classes the one that it is worst at counts."""
        serve = self._serves.get(tier.serve)
        row = self.rows.get((tier.name, classes[0]))
        barred = [bar for name in classes if (bar := self._barred(tier, serve, name, seen, asking))]
        breaker = self._breakers[tier.name]
        return Look(
            tier,
            worst([self.standing(tier, name) for name in classes]),
            barred[0] if barred else "",
            "" if serve is None else self._ailing(tier),
            self._sees.is_loaded(tier.serve),
            self._sees.displaces(tier.serve),
            tier.cost.of(seen.about, asking.output if asking.output is not None else OUTPUT),
            row.latency if row is not None else None,
            breaker.pause(self._now()),
            breaker.pause_status,
        )

    def _barred(self, tier: Tier, serve: Serve | None, task_class: str, seen: Outline, asking: Asking) -> str:
        """1. gone  2. its classes  3. the cloud: for all, this class, this key  4. dialect  5. context"""
        if serve is None:
            return "gone"  # 1
        if not listed(task_class, tier.classes):
            return "not_its_class"  # 2
        if tier.cloud and (bar := self.cloud_bar(task_class, asking.may_use_cloud)):
            return bar  # 3
        if not asking.speaks(serve):
            return "dialect"  # 4
        is_too_long = seen.tokens is not None and serve.context is not None and seen.tokens >= serve.context
        return "context" if is_too_long else ""  # 5

    def cloud_bar(self, task_class: str, may_use_cloud: bool) -> str:
        """Why nothing of a request may go to a cloud; empty: it may."""
        if not self.router.allow_cloud:
            return "cloud_not_permitted"
        if not listed(task_class, self.router.cloud_classes):
            return "class_not_cloud"
        return "" if may_use_cloud else "key_not_cloud"

    def is_loaded(self, tier: Tier) -> bool:
        return self._sees.is_loaded(tier.serve)

    def is_up(self, serve: str) -> bool:
        """Whether it is loaded and nothing is wrong with it."""
        return self._sees.is_loaded(serve) and not self._sees.ails(serve, self._now())

    def ails(self, tier: Tier) -> str:
        """Why it cannot serve just now; empty: it can, once it is loaded."""
        return RATE_LIMITED if self._breakers[tier.name].pause(self._now()) else self._ailing(tier)

    def _ailing(self, tier: Tier) -> str:
        """The same, but for a pause that it asked for."""
        now = self._now()
        return "circuit_open" if self._breakers[tier.name].is_shut(now) else self._sees.ails(tier.serve, now)

    def sketch(self, text: str) -> Outline:
        """Of a prompt that is nothing but this text, for `dry`."""
        shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"
        return self.counted(Outline(text=shown, size=len(text.encode())), None)

    def dry(self, seen: Outline, task: Task) -> dict[str, Any]:
        """What would become of a prompt, for people: no tier is asked, nothing changes."""
        made = self.plan(task, seen, Asking())
        task = made.task
        return {
            "task": task.name,
            "source": task.source.value,
            "notes": list(task.notes),
            "high_risk": any(name in self.router.high_risk for name in self.classes_of(task, seen)),
            "steps": [
                {"tier": step.tier.name, "serve": step.tier.serve, "verdict": step.verdict.value,
                 "verify": step.verify.value, "why": step.why}
                for step in made.steps
            ],
            "dropped": [{"tier": one.tier, "code": one.code, "why": one.why} for one in made.dropped],
            "refusal": "" if made.steps else made.refusal(),
        }  # fmt: skip

    def status(self) -> dict[str, Any]:
        """For /status."""
        return {
            "profile": self.router.profile_path,
            "aliases": dict(self.router.aliases),
            "rows": len(self.rows),
            "stale": [{"tier": tier, "class": name, "why": why} for tier, name, why in self.stale()],
            "tiers": [
                {"tier": tier.name, "serve": tier.serve, "cloud": tier.cloud, "circuit": self.state(tier.name).value,
                 "retry_in": self.pause(tier.name), "first_byte_timeout": self.first_byte_timeout(tier, 0, None, True),
                 "loaded": self._sees.is_loaded(tier.serve), "known": tier.serve in self.live}
                for tier in self.router.tiers
            ],
        }  # fmt: skip

    # -- what came of it -------------------------------------------------------------------------------------------

    def record(self, plan: Plan) -> Routed:
        """For the decision; it holds nothing of the prompt."""
        chosen = [f"{step.tier.name}: {step.verdict.value}, {step.why}" for step in plan.steps]
        left = [f"{one.tier}: dropped ({one.code}), {one.why}" for one in plan.dropped]
        return Routed(plan.task.name, plan.task.source.value, list(plan.task.notes), why=[*chosen, *left])

    def moves_on(self, error: StokerError) -> bool:
        """Whether the next tier may be tried after this; `failover` has the table."""
        return rule_for(error).moves_on

    def note(self, step: Step, attempt: Attempt, routed: Routed, decision: Decision) -> None:
        """An attempt is over: what it cost. It stays `left` where nothing else is known of it."""
        attempt.outcome = attempt.outcome or "left"
        attempt.input_tokens = _sum(attempt.input_tokens, decision.input_tokens)
        attempt.output_tokens = _sum(attempt.output_tokens, decision.output_tokens)
        if attempt.input_tokens is not None and attempt.output_tokens is not None:
            attempt.cost = step.tier.cost.of(attempt.input_tokens, attempt.output_tokens)
        if attempt.outcome == "served":
            routed.tier, routed.verdict, routed.verify = step.tier.name, step.verdict.value, step.verify.value

    def on_sent(self, tier: str) -> None:
        if (breaker := self._breakers.get(tier)) is not None:
            breaker.on_sent(self._now())

    def on_served(self, tier: str) -> None:
        """It answered, be it the caller's fault that the answer is a refusal."""
        if (breaker := self._breakers.get(tier)) is not None:
            breaker.on_served(self._now())

    def on_error(self, tier: str, error: StokerError, retry_after: float | None = None) -> None:
        """`retry_after`: seconds for which the tier asked not to be asked again."""
        breaker, now = self._breakers.get(tier), self._now()
        if breaker is None:
            return
        if retry_after is not None:
            breaker.on_pause(now, retry_after, error.status)
        match rule_for(error).health:
            case Health.FAULT:
                breaker.on_fault(now)
            case Health.HANGS:
                breaker.on_hang(now)
            case Health.WELL:
                breaker.on_served(now)

    def state(self, tier: str) -> State:
        return self._breakers[tier].shown(self._now())

    def pause(self, tier: str) -> float | None:
        """Seconds for which it asked not to be asked; None: it did not."""
        return self._breakers[tier].pause(self._now()) or None


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in words)})\b", re.IGNORECASE)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)
