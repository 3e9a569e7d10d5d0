"""What a serve is like by what it is, and by what its configuration says."""

from __future__ import annotations

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities


def test_an_engine_that_nobody_knows_is_a_local_one_without_specialities() -> None:
    assert capabilities_of("other", Dialect.CHAT, cloud=False) == Capabilities(Dialect.CHAT)


@pytest.mark.parametrize(
    ("engine", "field", "value"),
    [
        ("llama.cpp", "early_usage", "return_progress"),
        ("llama.cpp", "tool_images", True),
        ("llama.cpp", "repetition_field", "repeat_penalty"),
        ("vllm", "early_usage", "continuous_usage_stats"),
        ("vllm", "prefill", "continue"),
        ("sglang", "early_usage", "continuous_usage_stats"),
        ("sglang", "prefill", "continue"),
    ],
)
def test_what_engines_have_of_their_own(engine: str, field: str, value: object) -> None:
    assert getattr(capabilities_of(engine, Dialect.CHAT, cloud=False), field) == value
    assert getattr(Capabilities(Dialect.CHAT), field) != value


def test_a_cloud_gets_no_settings_of_local_engines() -> None:
    cloud = capabilities_of("openai", Dialect.CHAT, cloud=True)
    assert (cloud.local, cloud.thinking_switch, cloud.thinking_field) == (False, "effort", "")
    assert (cloud.limit_field, cloud.stop_strings, cloud.custom_tools) == ("max_completion_tokens", 4, True)
    assert (cloud.system_turns, cloud.takes_image_urls) == ("keep", True)


@pytest.mark.parametrize("cloud", [False, True])
def test_who_speaks_messages_has_long_names_and_system_turns_and_only_anthropic_checks_signatures(cloud: bool) -> None:
    found = capabilities_of("vllm", Dialect.MESSAGES, cloud)
    assert (found.name_length, found.stop_strings, found.system_turns) == (128, 0, "keep")
    assert (found.checks_signatures, found.sampling) == (cloud, not cloud)


def test_what_is_configured_goes_before_what_is_usual() -> None:
    found = capabilities_of(
        "vllm", Dialect.MESSAGES, True, {"system_turns": "append", "strict": True, "prefill": "refuse"}
    )
    assert (found.system_turns, found.strict, found.prefill) == ("append", True, "refuse")
