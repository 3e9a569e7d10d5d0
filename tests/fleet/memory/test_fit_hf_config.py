"""A model's directory becomes a shape: from config.json and headers; what is missing or hostile becomes a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.memory.model_files import QWEN, hub

from stoker.domain.errors import UnreadableModel
from stoker.fleet.memory.fit.estimate import Layer
from stoker.fleet.memory.fit.hf_config import read, trained_context


def test_weights_are_summed_over_files_and_layers_have_their_cache(tmp_path: Path) -> None:
    shape = read(str(hub(tmp_path / "qwen", QWEN, files=3)))
    assert (shape.name, shape.architecture, shape.precision, shape.format) == (
        "qwen", "Qwen3ForCausalLM", "BF16", "safetensors"
    )  # fmt: skip
    assert (shape.weights, shape.parameters, shape.context, shape.vocabulary) == (3000, 1500, 4096, 1000)
    assert shape.layers == (Layer(750, 2, 32),) * 4


def test_files_that_are_not_there_yet_are_taken_from_the_index(tmp_path: Path) -> None:
    folder = hub(tmp_path / "m", QWEN, files=2)
    (folder / "model-1.safetensors").unlink()
    shape = read(str(folder))
    assert (shape.weights, shape.parameters, shape.precision) == (2000, None, "BF16")
    assert shape.notes == ("1 of 2 weight files are not there: sizes are the index's",)


@pytest.mark.parametrize(
    ("quantization", "precision", "block"),
    [
        ({"quant_method": "awq", "bits": 4}, "AWQ", None),
        ({"quant_method": "gptq", "bits": 4}, "GPTQ", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "FP8", 128),
        ({"quant_method": "fp8"}, "FP8", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4", None),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "FP8", None),
        ({"quant_method": "auto-round", "bits": 4}, "AUTOROUND", None),
        ({"quant_method": "mxfp4"}, "MXFP4", None),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "NVFP4", None),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4}}}}, "INT4", None),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"type": "float"}}}}, "FP8", None),
        ({"quant_method": "new"}, "NEW", None),
    ],
)
def test_the_quantisation_is_named_in_one_word(
    tmp_path: Path, quantization: dict[str, Any], precision: str, block: int | None
) -> None:
    shape = read(str(hub(tmp_path / "m", QWEN | {"quantization_config": quantization})))
    assert (shape.precision, shape.block_size, shape.parameters) == (precision, block, None)


def test_windows_experts_latent_caches_and_nested_configurations_are_understood(tmp_path: Path) -> None:
    def layers(**facts: Any) -> list[tuple[int, int, int | None]]:
        shape = read(str(hub(tmp_path / "m", QWEN | facts)))
        return [(la.heads, la.elements, la.window) for la in shape.layers]

    kinds = ["sliding_attention", "full_attention"] * 2
    assert layers(sliding_window=128, layer_types=kinds) == [(2, 32, 128), (2, 32, None)] * 2
    assert layers(sliding_window=128) == [(2, 32, 128)] * 4
    assert layers(sliding_window=128, use_sliding_window=False) == [(2, 32, None)] * 4
    assert layers(kv_lora_rank=512, qk_rope_head_dim=64) == [(1, 576, None)] * 4
    nested = {"text_config": QWEN | {"num_experts": 8}, "vision_config": {}, "model_type": "vl"}
    assert read(str(hub(tmp_path / "n", nested))).experts == 8


def test_linear_attention_keeps_a_state_per_sequence(tmp_path: Path) -> None:
    facts = {"layer_types": ["linear_attention"] * 3 + ["full_attention"], "linear_num_value_heads": 4,
             "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
             "linear_conv_kernel_dim": 4}  # fmt: skip
    layers = read(str(hub(tmp_path / "m", QWEN | facts))).layers
    assert (layers[0].heads, layers[0].state, layers[3].state) == (0, 4 * 256 + 2 * 3 * 64, 0)


def broken(folder: Path, how: str) -> Path:
    hub(folder, QWEN, files=2)
    weights = folder / "model-0.safetensors"
    index = folder / "model.safetensors.index.json"
    match how:
        case "no config":
            (folder / "config.json").unlink()
        case "no JSON":
            (folder / "config.json").write_text("<html>")
        case "a list":
            (folder / "config.json").write_text("[]")
        case "deep":
            (folder / "config.json").write_text("[" * 100_000)
        case "no layers":
            (folder / "config.json").write_text("{}")
        case "many layers":
            (folder / "config.json").write_text(json.dumps(QWEN | {"num_hidden_layers": 2**40}))
        case "outside":
            index.write_text(json.dumps({"weight_map": {"w": "../../etc/passwd"}}))
        case "no weights":
            index.write_text(json.dumps({"weight_map": {}}))
        case "long header":
            weights.write_bytes((2**50).to_bytes(8, "little") + b"{}")
        case "cut off":
            weights.write_bytes(weights.read_bytes()[:-1])
        case "no place":
            weights.write_bytes((10).to_bytes(8, "little") + b'{"w": "x"}')
    return folder


@pytest.mark.parametrize(
    ("how", "said"),
    [("no config", "config.json cannot be read"), ("no JSON", "is not JSON"), ("a list", "not a JSON object"),
     ("deep", "is not JSON"), ("no layers", "num_hidden_layers"), ("many layers", "num_hidden_layers"),
     ("outside", "outside its directory"), ("no weights", "no safetensors files"), ("long header", "cut off"),
     ("cut off", "cut off"), ("no place", "without an offset")],
)  # fmt: skip
def test_what_cannot_be_used_is_a_sentence(tmp_path: Path, how: str, said: str) -> None:
    with pytest.raises(UnreadableModel, match=said):
        read(str(broken(tmp_path / "m", how)))


@pytest.mark.parametrize("header", [{}, {"__metadata__": {"format": "pt"}}])
def test_files_without_tensors_are_no_model(tmp_path: Path, header: dict[str, Any]) -> None:
    folder = hub(tmp_path / "m", QWEN)
    data = json.dumps(header).encode()
    (folder / "model-0.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    with pytest.raises(UnreadableModel, match="without a tensor"):
        read(str(folder))


@pytest.mark.parametrize(
    ("rope", "trained"),
    [
        ({}, 4096),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, 4096),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, None),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, None),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, None),
    ],
)
def test_only_a_configuration_that_stretches_the_context_hides_what_the_model_was_trained_for(
    tmp_path: Path, rope: dict[str, Any], trained: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096, **rope}))
    assert trained_context(str(tmp_path)) == trained
