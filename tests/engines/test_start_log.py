"""What engines print while they start becomes facts; the lines are from their source and published logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.linear import assert_linear

from stoker.engines import start_log

VLLM = """
INFO 11-20 10:00:01 [default_loader.py:314] Loading weights took 11.90 seconds
INFO 11-20 10:00:02 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB memory and 12.345 seconds
INFO 11-20 10:00:40 [monitor.py:34] torch.compile takes 38.21 s in total
INFO 11-20 10:00:41 [kv_cache_utils.py:1229] GPU KV cache size: 245,760 tokens
INFO 11-20 10:00:41 [kv_cache_utils.py:1234] Maximum concurrency for 32,768 tokens per request: 7.50x
INFO 11-20 10:00:55 [gpu_model_runner.py:3480] Graph capturing finished in 14 secs, took 0.58 GiB
"""
SGLANG = """
[2026-11-20 10:00:01] Load weight end. elapsed=9.21 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=60.1 GB.
[2026-11-20 10:00:02] max_total_num_tokens=131072, chunked_prefill_size=8192, max_running_requests=16
[2026-11-20 10:00:09] Capture cuda graph end. Time elapsed: 6.80 s. mem usage=0.40 GB. avail mem=7.9 GB.
"""


@pytest.mark.parametrize(
    ("log", "facts"),
    [
        (VLLM, {"kv_tokens": 245760, "full_contexts": 7.5, "load_s": 12.345, "compile_s": 38.21, "graph_s": 14.0}),
        (SGLANG, {"kv_tokens": 131072, "full_contexts": 4.0, "load_s": 9.21, "graph_s": 6.8}),
        ("nothing of this kind", {}),
    ],
)
def test_the_start_of_an_engine_says_how_much_it_holds_and_where_the_time_went(
    log: str, facts: dict[str, object]
) -> None:
    assert start_log.facts_of(log, 32768) == facts


def test_llama_cpp_says_it_over_http() -> None:
    served: dict[str, str | int | float] = {"total_slots": 4, "n_ctx": 8192}
    assert start_log.facts_of("", 8192, served) == {"kv_tokens": 32768, "full_contexts": 4.0}


def test_an_earlier_start_in_the_same_file_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(VLLM + SGLANG)
    assert "kv_tokens" in start_log.facts_of(start_log.read(log, len(VLLM)))
    assert start_log.facts_of(start_log.read(log, len(VLLM)))["kv_tokens"] == 131072
    assert start_log.read(tmp_path / "absent", 0) == start_log.read(None, 0) == ""


def test_long_lines_are_read_in_linear_time() -> None:
    assert_linear(lambda size: "Model loading took " * (size // 19), start_log.facts_of, 200_000)
