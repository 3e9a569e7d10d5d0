"""Bytes by formula, checked against what engines print for well-known models; the largest that fit are exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.memory.model_files import llama

from stoker.fleet.memory.fit import gguf
from stoker.fleet.memory.fit.estimate import (
    GIB,
    MIB,
    FitPlan,
    Layer,
    Shape,
    estimate,
    largest_context,
    largest_parallel,
    needed,
)

EIGHT = Shape(
    "eight", "llama", "safetensors", "BF16", 16 * 10**9, (Layer(0, 8, 256),) * 32, vocabulary=128256, width=4096
)


def cache(shape: Shape = EIGHT, **fields: object) -> int:
    found = estimate(shape, replace(FitPlan(context=8192), **fields))  # type: ignore[arg-type]
    return (found.device or found.host).cache


def test_the_cache_of_a_llama_8b_is_what_llama_cpp_prints() -> None:
    assert cache() == 1024 * MIB, "8192 tokens, 32 layers, K and V in f16: 1024.00 MiB"
    assert cache(cache_type="q8_0") == 544 * MIB
    assert cache(cache_type="q4_0") == 288 * MIB
    assert cache(parallel=4) == 4096 * MIB
    assert cache(context=8000) == cache(), "rounded up to 256"


def test_a_windowed_layer_keeps_its_window_and_one_batch() -> None:
    windowed = replace(EIGHT, layers=(Layer(0, 8, 256, 1024),) * 32)
    assert cache(windowed) == cache() * 1536 // 8192
    assert cache(windowed, context=512) == cache(context=512), "no more than there are tokens"


def test_tensor_parallelism_splits_heads_as_far_as_there_are_heads() -> None:
    vllm = {"engine": "vllm", "cache_type": "auto"}
    assert cache(devices=4, **vllm) == cache() // 4
    assert cache(devices=16, **vllm) == cache() // 8, "a head is not split"
    latent = replace(EIGHT, layers=(Layer(0, 1, 576),) * 32)
    assert cache(latent, devices=4, **vllm) == cache(latent)
    assert cache(latent, devices=4, pipeline=4, **vllm) == cache(latent) // 4


def test_weights_are_split_over_devices_and_converted_as_the_engine_does() -> None:
    def weights(shape: Shape = EIGHT, **fields: object) -> int:
        found = estimate(shape, replace(FitPlan("vllm", 1024, devices=2), **fields)).device  # type: ignore[arg-type]
        return found.weights if found else 0

    assert weights() == 8 * 10**9
    assert weights(quantization="fp8") == 4 * 10**9
    assert weights(replace(EIGHT, precision="AWQ"), quantization="fp8") == 8 * 10**9
    assert weights(replace(EIGHT, precision="F32")) == 4 * 10**9


def test_layers_that_are_not_on_devices_stay_in_main_memory_with_their_cache(tmp_path: Path) -> None:
    shape = gguf.read(str(llama(tmp_path / "m.gguf")))
    layer = shape.layers[0].weights
    whole = estimate(shape, FitPlan(context=4096, devices=1))
    assert whole.device is not None
    assert whole.device.weights == shape.weights - shape.embedding
    assert (whole.host.weights, whole.host.cache) == (shape.embedding, 0)
    part = estimate(shape, FitPlan(context=4096, devices=1, gpu_layers=10))
    assert part.device is not None
    assert (part.device.weights, part.host.weights) == (10 * layer, shape.weights - 10 * layer)
    assert part.device.cache * 22 == part.host.cache * 10
    assert estimate(shape, FitPlan(context=4096, devices=1, gpu_layers=99)) == whole


def test_a_recurrent_layer_costs_the_same_at_any_length() -> None:
    shape = replace(EIGHT, layers=(Layer(0, state=1000),) * 8)
    assert cache(shape, parallel=3) == cache(shape, parallel=3, context=256) == 24_000


def test_an_8b_in_q4_with_8k_of_context_takes_on_a_device_what_is_seen_in_practice(tmp_path: Path) -> None:
    """llama.cpp prints for it: weights 3.9 GiB, KV 1 GiB, compute 0.13 GiB, and the driver's context is 0.3 to 0.5."""
    shape = gguf.read(str(llama(tmp_path / "m.gguf", **{"llama.feed_forward_length": 14336})))
    assert needed(shape, FitPlan(context=8192, devices=1)) / GIB == pytest.approx(5.5, abs=0.2)


@given(st.integers(1, 64), st.integers(10 * MIB, 200 * GIB), st.sampled_from(["f16", "q8_0", "q4_0"]))
def test_the_largest_context_fits_and_the_next_one_does_not(parallel: int, room: int, kind: str) -> None:
    plan = FitPlan(parallel=parallel, cache_type=kind, devices=1)
    found = largest_context(EIGHT, plan, room)
    if found is None:
        assert needed(EIGHT, replace(plan, context=256)) > room
    else:
        assert needed(EIGHT, replace(plan, context=found)) <= room
        assert needed(EIGHT, replace(plan, context=found + 256)) > room


def test_the_largest_context_ends_at_what_the_model_was_trained_for() -> None:
    trained = replace(EIGHT, context=40_960 + 7)
    assert largest_context(trained, FitPlan(), 10**15) == 40_967


@given(st.integers(0, 100 * GIB))
def test_the_largest_parallel_fits_and_one_more_does_not(room: int) -> None:
    plan = FitPlan(context=4096, devices=1)
    found = largest_parallel(EIGHT, plan, room)
    assert found is None or needed(EIGHT, replace(plan, parallel=found)) <= room
    if found != 1024:
        assert needed(EIGHT, replace(plan, parallel=(found or 0) + 1)) > room
