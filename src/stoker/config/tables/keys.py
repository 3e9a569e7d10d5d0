"""`[app.NAME]` and `[[front_door.keys]]`: who may use what, how much, and with what defaults."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from stoker.config.definition import show
from stoker.domain.key import App, Key, KeySettings, Priority, Scope
from stoker.domain.kinds import (
    Count,
    Name,
    OllamaWord,
    Text,
    setting,
)
from stoker.domain.tier import Verify

Money = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1000)]


class AppTable(msgspec.Struct, frozen=True):
    """An application: its keys inherit its settings, and share its limits."""

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
        Money | None, setting("Most money for clouds in a day (UTC), in the currency of the tiers.")
    ] = None
    cost_per_month: Annotated[Money | None, setting("Most money for clouds in a calendar month (UTC).")] = None
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
        dict[str, float] | None,
        setting(
            "Parameters for requests that leave them out: `temperature`, `top_p`, `top_k`, `min_p`, "
            "`repetition_penalty`."
        ),
    ] = None
    verify: Annotated[
        Verify | None,
        setting("How answers of routed requests are checked, instead of the tier's `verify` and `verify_class`."),
    ] = None

    def to_settings(self) -> KeySettings:
        return KeySettings(
            scope=self.scope,
            models=None if self.models is None else tuple(self.models),
            classes=None if self.classes is None else tuple(self.classes),
            cloud=self.cloud,
            ollama_api=self.ollama_api,
            priority=self.priority,
            weight=self.weight,
            max_active=self.max_active,
            context=self.context,
            max_output=self.max_output,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            input_tokens_per_minute=self.input_tokens_per_minute,
            output_tokens_per_minute=self.output_tokens_per_minute,
            tokens_per_day=self.tokens_per_day,
            tokens_per_month=self.tokens_per_month,
            cost_per_day=self.cost_per_day,
            cost_per_month=self.cost_per_month,
            default_model=self.default_model,
            system_prompt=self.system_prompt,
            thinking=self.thinking,
            sampling=self.sampling,
            verify=self.verify,
        )


class KeyTable(AppTable, frozen=True):
    """A caller's key. What is left out is as in its application."""

    name: Annotated[Name | None, setting("Required. The caller's name in logs, metrics and decisions.")] = None
    value: Annotated[
        Text | None,
        setting(
            "Required. `env:NAME` or `file:PATH`; the key itself must not be in this file. At least 16 characters."
        ),
    ] = None
    app: Annotated[Name | None, setting("The application that it belongs to: `[app.NAME]`.")] = None


def show_key(key: Key) -> dict[str, Any]:
    """A key in the form of the file."""
    return {"name": key.name, "value": key.value.source, "app": key.app or None, **show_settings(key.own)}


def show_app(app: App) -> dict[str, Any]:
    """An application in the form of the file."""
    return show_settings(app.settings)


def show_settings(settings: KeySettings) -> dict[str, Any]:
    """What is set, with words and lists as in the file. What is not set is None."""
    return show(
        AppTable,
        settings,
        models=None if settings.models is None else list(settings.models),
        classes=None if settings.classes is None else list(settings.classes),
    )
