"""Keys of callers and the applications that they belong to: what each may do, how much, and with what defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Annotated

import msgspec

from stoker.domain.kinds import Count, Flat, Name, OllamaWord, SamplingName, Text, setting
from stoker.domain.serve import Secret, SecretSource
from stoker.domain.tier import Verify

Money = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1000)]


class Scope(IntEnum):
    """What a key may do; each includes the ones before it."""

    INFERENCE = 1
    OBSERVE = 2
    ADMIN = 3


class Priority(IntEnum):
    """Whose requests go first. Within one priority, keys share by weight."""

    INTERACTIVE = 0
    NORMAL = 1
    BACKGROUND = 2
    """Uses what nobody else needs: it never causes a swap while others wait or the resident is in use."""


@dataclass(frozen=True, slots=True)
class KeySettings:
    """What can be set for an application and for a key. None: not set here, so the next layer below decides.

    The layers, from the bottom: Stoker's defaults, the application, its overrides, the key, its overrides.
    """

    scope: Annotated[
        Scope | None, setting("What requests may do. Each scope includes the ones before it. Default: `inference`.")
    ] = None
    models: Annotated[
        tuple[Text, ...] | None,
        setting('Model names that may be used and are shown in `/v1/models`; `"*"` means all. Default: all.'),
    ] = None
    classes: Annotated[
        tuple[Text, ...] | None,
        setting('Classes of tasks that may be routed with `auto`; `"*"` means all. Default: all.'),
    ] = None
    cloud: Annotated[bool | None, setting("Whether requests may go to clouds. Default: they may.")] = None
    tools: Annotated[
        tuple[Text, ...] | None,
        setting(
            'Tools of `[tools.NAME]` that Stoker may run for its requests; `"*"` means all, an empty list none. '
            "Default: those that search and fetch, not those of kind `mcp` and `command`."
        ),
    ] = None
    ollama_api: Annotated[
        OllamaWord | None,
        setting("Whether requests to Ollama's API are answered: `answer` or `refuse`. Default: as in `[front_door]`."),
    ] = None
    priority: Annotated[
        Priority | None,
        setting(
            "`interactive`, `normal` or `background`: whose requests go first. Background requests never cause a swap "
            "while others wait or use the resident. Default: `normal`."
        ),
    ] = None
    weight: Annotated[
        Weight | None,
        setting("Share of the places, beside other keys of the same priority. Default: 1; 2 gets twice as much."),
    ] = None
    max_active: Annotated[
        Count | None,
        setting("Most requests in flight with it, at all serves; of an application, of all its keys together."),
    ] = None
    context: Annotated[Count | None, setting("Most tokens of prompt and answer together, per request.")] = None
    max_output: Annotated[
        Count | None, setting("Most tokens of one answer. A request that asks for more gets this many.")
    ] = None
    requests_per_minute: Annotated[Count | None, setting("Most requests in a minute. More get 429.")] = None
    tokens_per_minute: Annotated[Count | None, setting("Most tokens in a minute, of prompts and answers together.")] = (
        None
    )
    input_tokens_per_minute: Annotated[Count | None, setting("Most tokens of prompts in a minute.")] = None
    output_tokens_per_minute: Annotated[Count | None, setting("Most tokens of answers in a minute.")] = None
    tokens_per_day: Annotated[Count | None, setting("Most tokens in a day (UTC), of prompts and answers together.")] = (
        None
    )
    tokens_per_month: Annotated[Count | None, setting("Most tokens in a calendar month (UTC).")] = None
    cost_per_day: Annotated[
        Money | None, setting("Most money for clouds and tools in a day (UTC), in the currency of the tiers.")
    ] = None
    cost_per_month: Annotated[Money | None, setting("Most money for clouds and tools in a calendar month (UTC).")] = (
        None
    )
    default_model: Annotated[
        Text | None,
        setting("The model for requests that name none, or one that does not exist. Left out: they are refused."),
    ] = None
    system_prompt: Annotated[
        Text | None,
        setting("Text that is put before the system prompt of every request; shown in `x-stoker-translation`."),
    ] = None
    thinking: Annotated[bool | None, setting("Whether the model thinks, where a request does not say.")] = None
    sampling: Annotated[
        dict[SamplingName, float] | None,
        setting(
            "Parameters for requests that leave them out: `temperature`, `top_p`, `top_k`, `min_p`, "
            "`repetition_penalty`."
        ),
    ] = None
    verify: Annotated[
        Verify | None,
        setting("How answers of routed requests are checked, instead of the tier's `verify` and `verify_class`."),
    ] = None

    def over(self, base: KeySettings) -> KeySettings:
        """These settings, and those of `base` where nothing is set here."""
        own = {name: value for name in SETTING_NAMES if (value := getattr(self, name)) is not None}
        return KeySettings(**{name: own.get(name, getattr(base, name)) for name in SETTING_NAMES})


SETTING_NAMES = tuple(one.name for one in fields(KeySettings))


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """How much one key, or all keys of one application together, may use. None: any amount. Days and months are UTC.

    Tokens are those that the serves count: of the prompt (cached ones included) and of the answer.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    cost_per_day: float | None = None
    """Money for clouds, in the currency of the tiers."""
    cost_per_month: float | None = None

    def any(self) -> bool:
        return self != NO_LIMITS

    def counts_use(self) -> bool:
        """Whether it depends on what the serves used, and not only on how many requests there are."""
        return any(getattr(self, name) is not None for name in _LIMIT_NAMES if name != "requests_per_minute")


NO_LIMITS = UsageLimits()
_LIMIT_NAMES = tuple(one.name for one in fields(UsageLimits))


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """What a request gets where it says nothing itself. None, or empty: as the serve has it."""

    model: str | None = None
    """What a missing or unknown model means."""
    system_prompt: str | None = None
    """Put before the request's own system prompt, also where it has none."""
    thinking: bool | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)
    verify: str | None = None
    """How answers of routed requests are checked: `off`, `observe`, `hold-tools`, `hold-all`."""

    def any(self) -> bool:
        return bool(self.model or self.system_prompt or self.thinking is not None or self.sampling or self.verify)


@dataclass(frozen=True, slots=True)
class App:
    """An application: its keys inherit its settings, and share its limits."""

    name: str
    settings: Annotated[KeySettings, Flat()] = KeySettings()

    def limits(self) -> UsageLimits:
        return limits_of(self.settings)


@dataclass(frozen=True, slots=True)
class Key:
    """A caller's key. What is left out is as in its application."""

    name: Annotated[Name, setting("Required. The caller's name in logs, metrics and decisions.")]
    value: Annotated[
        SecretSource,
        setting(
            "Required. `env:NAME` or `file:PATH`; the key itself must not be in this file. At least 16 characters."
        ),
    ]
    scope: Scope = Scope.INFERENCE
    max_active: int | None = None
    """How many of its requests may run at once."""
    models: tuple[str, ...] = ("*",)
    ollama_api: str | None = None
    """`answer` or `refuse` requests of Ollama's API; None: as the front door is configured."""
    cloud: bool = True
    """Whether its requests may go to cloud tiers."""
    app: Annotated[Name, setting("The application that it belongs to: `[app.NAME]`.")] = ""
    classes: tuple[str, ...] = ("*",)
    """Classes of tasks that may be routed."""
    tools: tuple[str, ...] | None = None
    """Tools that Stoker may run for its requests; None: those that only read the web."""
    priority: Priority = Priority.NORMAL
    weight: float = 1.0
    """Its share of the places, beside other keys of its priority."""
    context: int | None = None
    """Most tokens of prompt and answer together."""
    max_output: int | None = None
    """Most tokens of one answer."""
    limits: UsageLimits = NO_LIMITS
    """Of this key alone. Those of the application count for all its keys together."""
    defaults: RequestDefaults = RequestDefaults()
    own: Annotated[KeySettings, Flat()] = KeySettings()
    """What is set for this key itself."""


def limits_of(settings: KeySettings) -> UsageLimits:
    return UsageLimits(**{name: getattr(settings, name) for name in _LIMIT_NAMES})


def make_key(name: str, value: Secret, own: KeySettings, app: str = "", inherited: KeySettings | None = None) -> Key:
    """A key with the settings in effect. `max_active` and the limits on amounts are not inherited: the
    application's are counted for all its keys together.
    """
    settings = own if inherited is None else own.over(inherited)
    return Key(
        name=name,
        value=value,
        scope=settings.scope or Scope.INFERENCE,
        max_active=own.max_active,
        models=("*",) if settings.models is None else settings.models,
        ollama_api=settings.ollama_api,
        cloud=settings.cloud is not False,
        app=app,
        classes=("*",) if settings.classes is None else settings.classes,
        tools=settings.tools,
        priority=Priority.NORMAL if settings.priority is None else settings.priority,
        weight=1.0 if settings.weight is None else settings.weight,
        context=settings.context,
        max_output=settings.max_output,
        limits=limits_of(own),
        defaults=RequestDefaults(
            settings.default_model,
            settings.system_prompt,
            settings.thinking,
            dict(settings.sampling or {}),
            settings.verify,
        ),
        own=own,
    )
