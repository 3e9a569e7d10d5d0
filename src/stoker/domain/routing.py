"""The settings of routing: how a request that names a task instead of a model gets its tier. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from stoker.domain.kinds import ByName, Count, FilePath, Flat, Name, SomeDuration, Text, setting
from stoker.domain.task import CLASSES, HIGH_RISK, LONG
from stoker.domain.tier import Cost, Price, Tier

AUTO = "auto"
"""The model name that lets Stoker choose the model; `auto:CLASS` declares the task class, too."""
HEADER = "x-stoker-class"
"""The request header that declares the class."""
UNKNOWN = "x-stoker-class-unknown"
"""The response header that names a declared class that is not known."""
ANY = "*"
"""In a list of classes: every class."""


Tokens = Annotated[int, msgspec.Meta(ge=1)]
Chance = Annotated[float, msgspec.Meta(ge=0, le=1)]
Few = Annotated[float, msgspec.Meta(ge=0, le=0.1)]


class TaskClass(msgspec.Struct, frozen=True):
    """A new task class, or changes to a built-in one."""

    name: str
    words: Annotated[
        tuple[Text, ...],
        setting(
            "Words and phrases that indicate the class, in upper or lower case. A built-in class keeps its own signs."
        ),
    ] = ()
    tier: Annotated[Name | None, setting("The tier that is preferred for this class, if it may serve it.")] = None
    orchestrator: Annotated[Name | None, setting("The orchestrator that answers `auto` requests of this class.")] = None


class Unmeasured(StrEnum):
    """Which tier is asked first for a class at which no local tier was measured."""

    TRUSTED = "trusted"
    """The first one that is trusted without being measured: a cloud. Where none may be used, as `cheapest`."""
    CHEAPEST = "cheapest"


class BreakerLimits(msgspec.Struct, frozen=True):
    """When the circuit of a failing tier opens, and for how long."""

    failures: Annotated[Count, setting("Failures in a row within `breaker_window` that open a tier's circuit.")] = 5
    window: Annotated[SomeDuration, setting("See `breaker_failures`.")] = 30.0
    cool_down: Annotated[
        SomeDuration, setting("How long an open circuit gets no requests before one tries it again.")
    ] = 20.0


class ShadowSettings(msgspec.Struct, frozen=True):
    """Grades a share of the answers with another model, after the client has them."""

    rate: Annotated[Chance, setting("Share of routed requests whose answers are graded. 0: none.")] = 0.0
    judge: Annotated[
        Name,
        setting(
            "The tier that grades. Required if `rate` is above 0. Its grades count only for classes that neither it "
            "nor another tier with its model may answer, and about which it was measured (`stoker eval validator`)."
        ),
    ] = ""
    cost_cap: Annotated[Price, setting("Most that grading may cost in a day (UTC), in the currency of the tiers.")] = (
        1.0
    )
    queue: Annotated[Count, setting("Most answers that may wait to be graded. Further ones are not graded.")] = 16
    timeout: Annotated[SomeDuration, setting("How long grading one answer may take.")] = 60.0


class ClassifierModelSettings(msgspec.Struct, frozen=True):
    """A model that classifies requests if the built-in classifier is not sure."""

    serve: Annotated[Name, setting("Required. A serve of this file, or a tier at a `base_url`.")]
    timeout: Annotated[SomeDuration, setting("How long it may take. After that, the built-in classifier decides.")] = (
        0.5
    )
    below: Annotated[
        Chance, setting("It is asked if the built-in classifier is less sure than this. 1: whenever the text decides.")
    ] = 0.8


class RouterSettings(msgspec.Struct, frozen=True):
    """How requests for `auto` are routed."""

    tiers: tuple[Tier, ...]
    """From the cheapest to the strongest, in the order of the file."""
    profile_path: Annotated[
        FilePath | None,
        setting("File of the quality profile. Default: `STATE/profile.json`; if there is none, the cautious profile."),
    ] = None
    high_risk: Annotated[
        tuple[Text, ...], setting("Classes that a local tier may serve only if it was measured to be good enough.")
    ] = HIGH_RISK
    long_context: Annotated[
        Tokens,
        setting(
            "Prompt length in tokens from which the class is `long-context`, except for work on code and high-risk "
            "classes."
        ),
    ] = LONG
    allow_cloud: Annotated[bool, setting("Whether cloud tiers may be used at all.")] = True
    cloud_classes: Annotated[tuple[Text, ...], setting('Classes for which cloud tiers may be used. `"*"`: all.')] = (
        "*",
    )
    breaker: Annotated[BreakerLimits, Flat("breaker_")] = BreakerLimits()
    unmeasured: Annotated[
        Unmeasured,
        setting(
            "Which tier is asked first for a class at which no local tier was measured: `trusted`, a cloud that may be "
            "used; or `cheapest`, whatever it is worth. Without a cloud both are the same."
        ),
    ] = Unmeasured.TRUSTED
    explore: Annotated[
        Few,
        setting(
            "Share of requests that go to another tier first, to learn about it: one that was measured to be good "
            "enough, is loaded and displaces nothing. At most 0.1."
        ),
    ] = 0.0
    shadow: Annotated[ShadowSettings, setting("Grading of live answers: `[router.shadow]`.", quiet=True)] = (
        ShadowSettings()
    )
    classifier: Annotated[
        ClassifierModelSettings | None,
        setting(
            "A model that classifies requests, if it has proved better than the built-in classifier: "
            "`[router.classifier]`."
        ),
    ] = None
    classes: Annotated[
        tuple[TaskClass, ...],
        ByName(),
        setting("New classes, and changes to built-in ones: `[router.class.NAME]`.", name="class", quiet=True),
    ] = ()
    aliases: Mapping[str, str] = {}
    """Other model names, and the `auto` or `auto:CLASS` that each of them stands for."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every class name: the built-in ones, then the operator's."""
        return tuple(dict.fromkeys((*CLASSES, *(item.name for item in self.classes))))

    @property
    def serves(self) -> tuple[str, ...]:
        """The serves that routing uses: those of the tiers, and the classifier's."""
        own = () if self.classifier is None else (self.classifier.serve,)
        return tuple(dict.fromkeys((*(tier.serve for tier in self.tiers), *own)))

    @property
    def local_tiers(self) -> list[Tier]:
        """Those that answer some class and are no clouds: a tier with `classes = []` only judges."""
        return [tier for tier in self.tiers if tier.classes and not tier.cloud]

    @property
    def names(self) -> dict[str, str]:
        """Every model name that is routed, and the class that it declares (empty: none)."""
        names = {AUTO: "", **{f"{AUTO}:{name}": name for name in self.known}}
        return names | {alias: names[meant] for alias, meant in self.aliases.items()}

    @property
    def listed(self) -> tuple[str, ...]:
        """The routed names that a list of models shows: `auto` and its aliases."""
        return AUTO, *self.aliases

    def specialist(self, task_class: str) -> str | None:
        """The tier that the operator prefers for a class; None: no preference."""
        return next((item.tier for item in self.classes if item.name == task_class), None)

    def permits(self, tier: Tier, task_class: str) -> bool:
        """Whether the configuration lets this tier serve this class. Keys and verdicts may still forbid it."""
        if not includes_class(task_class, tier.classes):
            return False
        return not tier.cloud or (self.allow_cloud and includes_class(task_class, self.cloud_classes))


def cloud_prices(router: RouterSettings | None) -> dict[str, Cost]:
    """The price of each cloud, by the name of its serve."""
    return {} if router is None else {tier.serve: tier.cost for tier in router.tiers if tier.cloud}


def is_reserved(name: str) -> bool:
    """Whether a model name has the form of a routed one; its class need not exist."""
    return name == AUTO or name.startswith(f"{AUTO}:")


def includes_class(task_class: str, classes: tuple[str, ...]) -> bool:
    """Whether a list of classes holds this one."""
    return ANY in classes or task_class in classes
