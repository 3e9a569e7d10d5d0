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


CUDA = """
ggml_cuda_init: found 2 CUDA devices:
0.00.944.665 I llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23858 MiB free
0.00.944.671 I llama_prepare_model_devices: using device CUDA1 (NVIDIA GeForce RTX 3090) (0000:0C:00.0) - 13850 MiB free
"""
VULKAN = (
    "llama_prepare_model_devices: skipping device Vulkan1 (Intel(R) Graphics (RPL-P)) with id 0000:01:00.0 - already "
    "using device CUDA0 (NVIDIA GeForce RTX 4070) with the same id\n"
    "llama_model_load_from_file_impl: using device Vulkan0 (AMD Radeon RX 7900 XT (RADV NAVI31)) (0000:03:00.0) - "
    "20464 MiB free"
)
NO_GPU = (
    "warning: no usable GPU found, --gpu-layers option will be ignored\n"
    "warning: one possible reason is that llama.cpp was compiled without GPU support"
)


@pytest.mark.parametrize(
    ("log", "devices"),
    [
        (CUDA, "0000:01:00.0, 0000:0c:00.0"),
        (CUDA + CUDA, "0000:01:00.0, 0000:0c:00.0"),  # the model, and its draft model
        (VULKAN, "0000:03:00.0"),
        ("llama_prepare_model_devices: using device SYCL0 (Intel(R) Arc(TM) B580) (unknown id) - 11605 MiB free", ""),
        (CUDA + "x: using device RPC0 (host:50052) (unknown id) - 8192 MiB free", ""),
        ("llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 4080) - 11047 MiB free", ""),
        (CUDA + "main: using device CPU (12th Gen Intel(R) Core) (unknown id) - 53243 MiB free",
         "0000:01:00.0, 0000:0c:00.0"),
        (NO_GPU, "cpu"),
        ("Initializing a V1 LLM engine (v0.11.0) with config: model='m', device_config=cuda, seed=0", "cuda"),
        ("Initializing a V1 LLM engine (v0.11.0) with config: model='m', device_config=xpu, seed=0", "xpu"),
        ("server_args=ServerArgs(model_path='m', device='cpu', tp_size=1)", "cpu"),
        ("INFO: device_configuration=cuda_x", ""),
        ("the image processor is warm, device='cpu'", ""),
        (NO_GPU + "\nx: using device CUDA0 (NVIDIA GeForce RTX 4080) - 11047 MiB free", ""),
    ],
)  # fmt: skip
def test_an_engine_says_which_devices_it_uses(log: str, devices: str) -> None:
    assert start_log.facts_of(log).get("devices", "") == devices


def test_an_earlier_start_in_the_same_file_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(VLLM + SGLANG)
    assert "kv_tokens" in start_log.facts_of(start_log.read(log, len(VLLM)))
    assert start_log.facts_of(start_log.read(log, len(VLLM)))["kv_tokens"] == 131072
    assert start_log.read(tmp_path / "absent", 0) == start_log.read(None, 0) == ""


def test_long_lines_are_read_in_linear_time() -> None:
    for words in ("Model loading took ", "using device x (", "device_config=", "ServerArgs("):
        assert_linear(lambda size, words=words: words * (size // len(words)), start_log.facts_of, 200_000)
