"""The settings of routing: how a request that names a task instead of a model gets its tier. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from stoker.domain.task import CLASSES, HIGH_RISK, LONG
from stoker.domain.tier import Tier

AUTO = "auto"
"""The model name that lets Stoker choose the model; `auto:CLASS` declares the task class, too."""
HEADER = "x-stoker-class"
"""The request header that declares the class."""
UNKNOWN = "x-stoker-class-unknown"
"""The response header that names a declared class that is not known."""
ANY = "*"
"""In a list of classes: every class."""


class TaskClass(msgspec.Struct, frozen=True):
    """The operator's settings for one task class, built-in or new."""

    name: str
    words: tuple[str, ...] = ()
    """Words and phrases that mean this class, ignoring case. A built-in class is also recognised by the classifier."""
    tier: str | None = None
    """The specialist: the tier to prefer for this class, if the class may use it."""
    orchestrator: str | None = None
    """The orchestrator that answers `auto` requests of this class."""


class Unmeasured(StrEnum):
    """Which tier is asked first for a class at which no local tier was measured."""

    TRUSTED = "trusted"
    """The first one that is trusted without being measured: a cloud. Where none may be used, as `cheapest`."""
    CHEAPEST = "cheapest"


class BreakerLimits(msgspec.Struct, frozen=True):
    """When the circuit of a failing tier opens, and for how long."""

    failures: int = 5
    """Failures in a row, within `window` seconds, that open the circuit."""
    window: float = 30.0
    cool_down: float = 20.0
    """Seconds until the tier is tried again."""


class ShadowSettings(msgspec.Struct, frozen=True):
    """Which share of the answers a judge grades, and the limits on that."""

    rate: float = 0.0
    """Share of the requests that name a task; 0: none."""
    judge: str = ""
    """The tier that grades."""
    cost_cap: float = 1.0
    """Money per UTC day, in the currency of the tiers."""
    queue: int = 16
    """Answers that may wait to be graded."""
    timeout: float = 60.0


class ClassifierModelSettings(msgspec.Struct, frozen=True):
    """A serve that is asked for the class of a request if the built-in classifier is not sure."""

    serve: str
    timeout: float = 0.5
    below: float = 0.8
    """The serve is asked if the built-in classifier is less sure than this; 1: always."""


class RouterSettings(msgspec.Struct, frozen=True):
    """All settings of routing. There is at least one tier."""

    tiers: tuple[Tier, ...]
    """From the cheapest to the strongest, in the order of the file."""
    high_risk: tuple[str, ...] = HIGH_RISK
    classes: tuple[TaskClass, ...] = ()
    """The classes that the file has settings for, new and built-in."""
    allow_cloud: bool = True
    cloud_classes: tuple[str, ...] = (ANY,)
    breaker: BreakerLimits = BreakerLimits()
    long_context: int = LONG
    """Tokens from which a prompt is long. A body of fewer bytes is not long, and its tokens are not counted."""
    unmeasured: Unmeasured = Unmeasured.TRUSTED
    explore: float = 0.0
    """Share of the requests that go to another tier first, to one that was also measured to be good enough."""
    shadow: ShadowSettings = ShadowSettings()
    classifier: ClassifierModelSettings | None = None
    """None: only the built-in classifier decides."""
    profile_path: str | None = None
    """Absolute path of the quality profile; None: STATE/profile.json, or the cautious profile if that file is absent.
    """
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


def is_reserved(name: str) -> bool:
    """Whether a model name has the form of a routed one; its class need not exist."""
    return name == AUTO or name.startswith(f"{AUTO}:")


def includes_class(task_class: str, classes: tuple[str, ...]) -> bool:
    """Whether a list of classes holds this one."""
    return ANY in classes or task_class in classes
