"""`[app.NAME]` and `[[front_door.keys]]`: who may use what, how much, and with what defaults."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import (
    SCOPES,
    Count,
    Name,
    OllamaWord,
    PriorityWord,
    ScopeWord,
    Text,
    VerifyWord,
)
from stoker.domain.key import App, Key, KeySettings, Priority, Scope

Money = Annotated[float, Field(gt=0, le=1e9)]
Weight = Annotated[float, Field(gt=0, le=1000)]


class AppTable(Section):
    """An application: its keys inherit its settings, and share its limits."""

    scope: ScopeWord | None = setting(
        None, "What requests may do. Each scope includes the ones before it. Default: `inference`."
    )
    models: list[Text] | None = setting(
        None, 'Model names that may be used and are shown in `/v1/models`; `"*"` means all. Default: all.'
    )
    classes: list[Text] | None = setting(
        None, 'Classes of tasks that may be routed with `auto`; `"*"` means all. Default: all.'
    )
    cloud: bool | None = setting(None, "Whether requests may go to clouds. Default: they may.")
    ollama_api: OllamaWord | None = setting(
        None, "Whether requests to Ollama's API are answered: `answer` or `refuse`. Default: as in `[front_door]`."
    )
    priority: PriorityWord | None = setting(
        None,
        "`interactive`, `normal` or `background`: whose requests go first. Background requests never cause a swap "
        "while others wait or use the resident. Default: `normal`.",
    )
    weight: Weight | None = setting(
        None, "Share of the places, beside other keys of the same priority. Default: 1; 2 gets twice as much."
    )
    max_active: Count | None = setting(
        None, "Most requests in flight with it, at all serves; of an application, of all its keys together."
    )
    context: Count | None = setting(None, "Most tokens of prompt and answer together, per request.")
    max_output: Count | None = setting(None, "Most tokens of one answer. A request that asks for more gets this many.")
    requests_per_minute: Count | None = setting(None, "Most requests in a minute. More get 429.")
    tokens_per_minute: Count | None = setting(None, "Most tokens in a minute, of prompts and answers together.")
    input_tokens_per_minute: Count | None = setting(None, "Most tokens of prompts in a minute.")
    output_tokens_per_minute: Count | None = setting(None, "Most tokens of answers in a minute.")
    tokens_per_day: Count | None = setting(None, "Most tokens in a day (UTC), of prompts and answers together.")
    tokens_per_month: Count | None = setting(None, "Most tokens in a calendar month (UTC).")
    cost_per_day: Money | None = setting(None, "Most money for clouds in a day (UTC), in the currency of the tiers.")
    cost_per_month: Money | None = setting(None, "Most money for clouds in a calendar month (UTC).")
    default_model: Text | None = setting(
        None, "The model for requests that name none, or one that does not exist. Left out: they are refused."
    )
    system_prompt: Text | None = setting(
        None, "Text that is put before the system prompt of every request; shown in `x-stoker-translation`."
    )
    thinking: bool | None = setting(None, "Whether the model thinks, where a request does not say.")
    sampling: dict[str, float] | None = setting(
        None,
        "Parameters for requests that leave them out: `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`.",
    )
    verify: VerifyWord | None = setting(
        None, "How answers of routed requests are checked, instead of the tier's `verify` and `verify_class`."
    )

    def to_settings(self) -> KeySettings:
        return KeySettings(
            scope=None if self.scope is None else Scope(1 + SCOPES.index(self.scope)),
            models=None if self.models is None else tuple(self.models),
            classes=None if self.classes is None else tuple(self.classes),
            cloud=self.cloud,
            ollama_api=self.ollama_api,
            priority=None if self.priority is None else Priority[self.priority.upper()],
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


class KeyIdentity(Section):
    """What only a key has."""

    name: Name | None = setting(None, "Required. The caller's name in logs, metrics and decisions.")
    value: Text | None = setting(
        None, "Required. `env:NAME` or `file:PATH`; the key itself must not be in this file. At least 16 characters."
    )
    app: Name | None = setting(None, "The application that it belongs to: `[app.NAME]`.")


class KeyTable(AppTable, KeyIdentity):
    """A caller's key. What is left out is as in its application."""


def show_key(key: Key) -> dict[str, Any]:
    """A key in the form of the file."""
    return {"name": key.name, "value": key.value.source, "app": key.app or None, **show_settings(key.own)}


def show_app(app: App) -> dict[str, Any]:
    """An application in the form of the file."""
    return show_settings(app.settings)


def show_settings(settings: KeySettings) -> dict[str, Any]:
    """What is set, with words and lists as in the file. What is not set is None."""
    return AppTable.show(
        settings,
        scope=None if settings.scope is None else settings.scope.name.lower(),
        priority=None if settings.priority is None else settings.priority.name.lower(),
        models=None if settings.models is None else list(settings.models),
        classes=None if settings.classes is None else list(settings.classes),
    )
