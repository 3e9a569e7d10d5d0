"""What cached tokens cost: as the file says, else as the vendor of a known model publishes, else as fresh ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config.cache_prices import cache_rate
from stoker.config.load import load
from stoker.domain.tier import Cost


def cost(
    tmp_path: Path, prices: str, model: str = "claude-sonnet-4-5", url: str = "https://api.example.com/v1"
) -> Cost:
    key = tmp_path / "key"
    key.write_text("a-key-of-the-cloud-0123456789")
    key.chmod(0o600)
    file = tmp_path / "stoker.toml"
    file.write_text(
        f'[[tier]]\nname = "cloud"\nbase_url = "{url}"\nmodel = "{model}"\nkey = "file:{key}"\ncost = {{ {prices} }}\n'
    )
    router = load(file).router
    assert router is not None
    return router.tiers[0].cost


def test_what_the_file_says_holds(tmp_path: Path) -> None:
    given = "input = 3.0, output = 15.0, cached_input = 1.0, cache_write = 0"
    assert cost(tmp_path, given) == Cost(3.0, 15.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("model", "cached", "written"),
    [("claude-sonnet-4-5", 0.3, 3.75), ("gpt-5.1", 0.3, None), ("gpt-4.1-mini", 0.75, None), ("gpt-4o", 1.5, None),
     ("some-model", None, None)],
)  # fmt: skip
def test_a_known_model_costs_what_its_vendor_publishes(
    model: str, cached: float | None, written: float | None, tmp_path: Path
) -> None:
    assert cost(tmp_path, "input = 3.0, output = 15.0", model) == Cost(3.0, 15.0, cached, written)


def test_a_tier_on_this_machine_has_no_vendor(tmp_path: Path) -> None:
    local = cost(tmp_path, "input = 3.0, output = 15.0", "claude-like", "http://127.0.0.1:9/v1")
    assert local.of(100, 0, cached=100) == local.of(100, 0)


@pytest.mark.parametrize(
    ("model", "read", "write"),
    [
        ("claude-opus-5", 0.1, 1.25), ("anthropic/claude-3-haiku", 0.1, 1.25), ("us.anthropic.claude-x", 0.1, 1.25),
        ("gpt-6.1-sol", 0.05, 1.25), ("gpt-6-astra", 0.1, 1.25), ("gpt-5.6-luna", 0.1, 1.25), ("gpt-5.5", 0.1, 1.0),
        ("openai/gpt-5-mini", 0.1, 1.0), ("gpt-4.1", 0.25, 1.0), ("o3", 0.25, 1.0), ("o3-mini", 0.5, 1.0),
        ("o4-mini-high", 0.25, 1.0), ("gpt-4o-mini", 0.5, 1.0), ("models/gemini-2.5-flash", 0.1, 1.0),
        ("deepseek-chat", 0.1, 1.0), ("gpt-5.10", 1.0, 1.0), ("gpt-6.2", 1.0, 1.0), ("my-claude", 1.0, 1.0),
        ("qwen", 1.0, 1.0), ("", 1.0, 1.0),
    ],
)  # fmt: skip
def test_families_are_told_by_the_beginning_of_the_name(model: str, read: float, write: float) -> None:
    assert cache_rate(model) == (read, write)
