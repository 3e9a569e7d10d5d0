"""docs/reference/engines.md is in step with the tables that it describes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stoker.engines import embedded, failures, options
from stoker.engines.record import Engine, FailureKind, MetricRow
from stoker.engines.registry import ENGINES
from stoker.engines.signals import Signals

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "engines.md").read_text()
CONFIGURATION = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text()
EXAMPLES: dict[str, Any] = {
    "context": "N", "parallel": "N", "threads": "N", "gpu_layers": "N", "tensor_parallel": "N",
    "pipeline_parallel": "N", "memory_fraction": "X", "batched_tokens": "N", "dtype": "T", "quantization": "Q",
    "kv_cache_type": "T", "cpu_moe": True, "n_cpu_moe": "N", "speculative": "DRAFT", "mmproj": "FILE",
    "adapters": ("NAME.gguf",), "kv_offload": 8 * 2**30, "kv_offload_backend": "NAME",
    "attention_backend": "NAME", "prefix_caching": False, "graphs": False, "tool_parser": "NAME",
    "reasoning_parser": "NAME", "chat_template": "./FILE", "thinking": False, "sampling": {"top_p": 0.9},
    "rendezvous": "HOST:PORT", "trust_remote_code": True, "metrics": True,
}  # fmt: skip


STARTED = [engine for engine in ENGINES.values() if engine.launch is not None]


def said(engine: Engine, key: str) -> str:
    """The words for an example; what the engine does by itself needs none."""
    if key not in engine.options:
        return "\N{EN DASH}"
    example = "flash" if "flash" in engine.choices.get(key, ()) else EXAMPLES[key]
    words = engine.options[key](example)
    return f"`{' '.join(words)}`" if words else "by itself"


def table(first: str, rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A column for each engine."""
    head = [f"| {first} | {' | '.join(engine.title for engine in STARTED)} |", f"|---|{'---|' * len(STARTED)}"]
    return "\n".join([*head, *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows)])


def keys() -> str:
    values = {"kv_offload": '"8GiB"'}
    values |= {key: str(value).lower() for key, value in EXAMPLES.items() if isinstance(value, bool)}
    shown = {key: f"{key} = {values[key]}" if key in values else key for key in options.KEYS}
    return table("key", ((shown[key], (said(engine, key) for engine in STARTED)) for key in options.KEYS))


def metric_names(row: MetricRow | None) -> str:
    names = () if row is None else row.names
    shown = (f"`{name.metric}`" + (f" ({name.label[1]})" if name.label else "") for name in names)
    return ", else ".join(shown) or "\N{EN DASH}"


def names() -> str:
    signals = Signals.__dataclass_fields__
    return table("signal", ((one, (metric_names(engine.signals.get(one)) for engine in STARTED)) for one in signals))


def kinds() -> str:
    rows = ["| kind | proposed status | advice |", "|---|---|---|"]
    for kind in FailureKind:
        proposed = failures.PROPOSED.get(kind)
        rows.append(f"| `{kind}` | {proposed or ''} | {failures.advice(kind)} |")
    return "\n".join(rows)


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    for made in (keys(), names(), kinds()):
        assert made in PAGE, f"docs/reference/engines.md is behind: put in\n{made}"


def test_the_options_of_the_embedded_engine_are_on_the_page_and_found() -> None:
    assert ", ".join(f"`{option}`" for option in embedded.taken_options()) in PAGE
    assert "\n## Embedded engine options\n" in PAGE, "`stoker docs embedded engine options`, which a refusal proposes"


@pytest.mark.parametrize("engine", STARTED, ids=lambda engine: engine.name)
def test_an_engine_its_caches_and_what_it_cannot_express_are_on_the_page(engine: Engine) -> None:
    assert f"`{engine.name}`" in PAGE
    for prefix in engine.variables:
        assert f"{prefix}*" in CONFIGURATION, prefix
    for variable in engine.caches:
        assert f"`{variable}`" in PAGE, variable
    for key, instead in engine.instead.items():
        assert f"| `{key}` | {instead.replace('|', '/')} |" in PAGE, key
