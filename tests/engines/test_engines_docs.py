"""docs/reference/engines.md is in step with the tables that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stoker.engines import failures, llama_cpp, options, placement, plan, sglang, signals, vllm

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "engines.md").read_text()
EXAMPLES: dict[str, Any] = {
    "context": "N", "parallel": "N", "threads": "N", "gpu_layers": "N", "tensor_parallel": "N",
    "pipeline_parallel": "N", "memory_fraction": "X", "batched_tokens": "N", "dtype": "T", "quantization": "Q",
    "kv_cache_type": "T", "attention_backend": "NAME", "prefix_caching": False, "graphs": False, "tool_parser": "NAME",
    "reasoning_parser": "NAME", "chat_template": "./FILE", "thinking": False, "sampling": {"top_p": 0.9},
    "rendezvous": "HOST:PORT", "trust_remote_code": True, "metrics": True,
}  # fmt: skip


def said(module: Any, key: str) -> str:
    """The words for an example; what the engine does by itself needs none."""
    if key not in module.WORDS:
        return "\N{EN DASH}"
    example = "flash" if (module, key) == (llama_cpp, "attention_backend") else EXAMPLES[key]
    return f"`{' '.join(module.WORDS[key](example))}`" if module.WORDS[key](example) else "by itself"


def keys() -> str:
    rows = ["| key | llama.cpp | vLLM | SGLang |", "|---|---|---|---|"]
    for key in options.KEYS:
        value = EXAMPLES[key]
        shown = f"{key} = {str(value).lower()}" if isinstance(value, bool) else key
        rows.append(f"| `{shown}` | {' | '.join(said(module, key) for module in (llama_cpp, vllm, sglang))} |")
    return "\n".join(rows)


def names() -> str:
    rows = ["| signal | llama.cpp | vLLM | SGLang |", "|---|---|---|---|"]
    for signal in signals.Signals.__dataclass_fields__:
        cells = []
        for engine in ("llama.cpp", "vllm", "sglang"):
            row = signals.TABLES[engine].get(signal)
            shown = (
                [f"`{name.metric}`" + (f" ({name.label[1]})" if name.label else "") for name in row.names]
                if row
                else []
            )
            cells.append(", else ".join(shown) or "\N{EN DASH}")
        rows.append(f"| `{signal}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def kinds() -> str:
    rows = ["| kind | proposed status | advice |", "|---|---|---|"]
    for kind in failures.FailureKind:
        proposed = failures.PROPOSED.get(kind)
        rows.append(f"| `{kind}` | {proposed or ''} | {failures.advice(kind)} |")
    return "\n".join(rows)


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    for table in (keys(), names(), kinds()):
        assert table in PAGE, f"docs/reference/engines.md is behind: put in\n{table}"


def test_every_engine_and_every_variable_for_a_cache_is_on_the_page() -> None:
    for engine in plan.ADAPTERS:
        assert f"`{engine}`" in PAGE
        for variable in placement.caches(engine, "/v", "a"):
            assert f"`{variable}`" in PAGE, variable


def test_what_an_engine_has_no_words_for_has_something_instead_on_the_page() -> None:
    for module in (llama_cpp, vllm, sglang):
        for key, instead in module.INSTEAD.items():
            assert f"| `{key}` | {instead.replace('|', '/')} |" in PAGE, key
