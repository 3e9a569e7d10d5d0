"""How a request that names a task instead of a model is routed, as configured. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.domain.task import CLASSES, HIGH_RISK, LONG
from stoker.domain.tier import Tier

AUTO = "auto"
"""The model name that asks for a choice; `auto:CLASS` declares the class too."""
HEADER = "x-stoker-class"
"""The request header that declares the class."""
UNKNOWN = "x-stoker-class-unknown"
"""The response header that says which declared class is not known."""
ANY = "*"
"""Every class, in a list of classes."""


class TaskClass(msgspec.Struct, frozen=True):
    """What the operator says of one class of tasks: one of his own, or a built-in one."""

    name: str
    words: tuple[str, ...] = ()
    """Words and phrases that speak for it, in any case. A built-in class is found by its own signs, too."""
    tier: str | None = None
    """The specialist: the tier to prefer for it. A preference: it permits nothing."""


class BreakerLimits(msgspec.Struct, frozen=True):
    """When a tier that fails is left alone, and for how long."""

    failures: int = 5
    """In a row, within `window` seconds."""
    window: float = 30.0
    cool_down: float = 20.0
    """Seconds until it is tried again."""


class ShadowSettings(msgspec.Struct, frozen=True):
    """Which share of the answers a judge grades, and what that may take."""

    rate: float = 0.0
    """Of the requests that name a task; 0: none."""
    judge: str = ""
    """The tier that grades."""
    cost_cap: float = 1.0
    """Money per UTC day, in the currency of the tiers."""
    queue: int = 16
    """Answers that may wait to be graded."""
    timeout: float = 60.0


class ClassifierModelSettings(msgspec.Struct, frozen=True):
    """A serve that is asked which class a request is of, where what was learned is not sure."""

    serve: str
    timeout: float = 0.5
    below: float = 0.8
    """It is asked where the built-in classifier is less sure than this; 1: always."""


class RouterSettings(msgspec.Struct, frozen=True):
    """Everything that routing runs by. There is at least one tier."""

    tiers: tuple[Tier, ...]
    """From the cheapest to the strongest, as they stand in the file."""
    high_risk: tuple[str, ...] = HIGH_RISK
    classes: tuple[TaskClass, ...] = ()
    """Those that the file says something of, own and built-in."""
    allow_cloud: bool = True
    cloud_classes: tuple[str, ...] = (ANY,)
    breaker: BreakerLimits = BreakerLimits()
    long_context: int = LONG
    """Tokens of a prompt from which it is long. Where its bytes are fewer, nobody has to count."""
    explore: float = 0.0
    """Share of the requests that go to another tier first, one that was measured to be good enough as well."""
    shadow: ShadowSettings = ShadowSettings()
    classifier: ClassifierModelSettings | None = None
    """None: the built-in classifier alone decides."""
    profile_path: str | None = None
    """Absolute; None: STATE/profile.json, and where there is none the cautious profile."""
    aliases: Mapping[str, str] = {}
    """Further model names, and which of `auto` and `auto:CLASS` each of them says."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every class name: the built-in ones, then the operator's own."""
        return tuple(dict.fromkeys((*CLASSES, *(one.name for one in self.classes))))

    @property
    def serves(self) -> tuple[str, ...]:
        """Those that routing has to know: of its tiers, and the classifier's."""
        own = () if self.classifier is None else (self.classifier.serve,)
        return tuple(dict.fromkeys((*(tier.serve for tier in self.tiers), *own)))

    @property
    def names(self) -> dict[str, str]:
        """Every model name that asks for a choice, and the class that it declares; empty: none."""
        names = {AUTO: "", **{f"{AUTO}:{name}": name for name in self.known}}
        return names | {alias: names[meant] for alias, meant in self.aliases.items()}

    @property
    def listed(self) -> tuple[str, ...]:
        """Those that a list of models shows: `auto`, and what the operator calls it."""
        return AUTO, *self.aliases

    def specialist(self, task_class: str) -> str | None:
        """The tier that is recommended for a class."""
        return next((one.tier for one in self.classes if one.name == task_class), None)

    def permits(self, tier: Tier, task_class: str) -> bool:
        """Whether the file lets this tier serve this class. Keys and verdicts have their own say."""
        if not includes_class(task_class, tier.classes):
            return False
        return not tier.cloud or (self.allow_cloud and includes_class(task_class, self.cloud_classes))


def is_reserved(name: str) -> bool:
    """Whether a model name is for naming a task, be there such a class or not."""
    return name == AUTO or name.startswith(f"{AUTO}:")


def includes_class(task_class: str, classes: tuple[str, ...]) -> bool:
    """Whether a list of classes holds this one."""
    return ANY in classes or task_class in classes
