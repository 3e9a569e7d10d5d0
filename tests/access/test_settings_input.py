"""Settings that an operator gives at run time are those of the configuration file."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.access.settings_input import read_settings, show_settings
from stoker.domain.errors import ClientError
from stoker.domain.key import SETTING_NAMES, KeySettings, Priority, Scope

EACH: dict[str, Any] = {
    "scope": "observe",
    "models": ["fast", "*"],
    "classes": ["coding"],
    "cloud": False,
    "tools": ["web_search"],
    "ollama_api": "refuse",
    "priority": "background",
    "weight": 2.0,
    "max_active": 3,
    "context": 8192,
    "max_output": 512,
    "requests_per_minute": 60,
    "tokens_per_minute": 1000,
    "input_tokens_per_minute": 900,
    "output_tokens_per_minute": 100,
    "tokens_per_day": 10_000,
    "tokens_per_month": 100_000,
    "cost_per_day": 1.5,
    "cost_per_month": 20.0,
    "default_model": "fast",
    "system_prompt": "Be brief.",
    "thinking": True,
    "sampling": {"temperature": 0.5},
    "verify": "observe",
}


def test_every_setting_is_read_and_shown_in_the_words_of_the_file() -> None:
    assert set(EACH) == set(SETTING_NAMES)
    settings = read_settings(EACH)
    assert (settings.scope, settings.priority, settings.tools) == (Scope.OBSERVE, Priority.BACKGROUND, ("web_search",))
    assert show_settings(settings) == EACH


def test_what_is_not_given_is_not_set() -> None:
    assert read_settings({}) == KeySettings()
    assert show_settings(KeySettings()) == {}


@pytest.mark.parametrize(
    ("given", "param", "problem"),
    [
        ({"tool": ["a"]}, "tool", "did you mean 'tools'?"),
        ({"tools": "web_search"}, "tools", "must be a list"),
        ({"max_active": True}, "max_active", "must be a whole number"),
        ({"max_active": 0}, "max_active", "is too small: at least 1"),
        ({"weight": 1e9}, "weight", "is too large: at most 1000"),
        ({"priority": "high"}, "priority", "use interactive, normal or background"),
        ({"sampling": {"temp": 1}}, "sampling.temp", "did you mean 'temperature'?"),
        ({"context": 5, "max_output": 6}, "max_output", "is larger than 'context'"),
    ],
)
def test_a_mistake_names_the_setting_and_what_it_takes(given: dict[str, Any], param: str, problem: str) -> None:
    with pytest.raises(ClientError) as caught:
        read_settings(given)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert problem in str(caught.value)
