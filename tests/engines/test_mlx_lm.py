"""MLX LM: its command line, and the real `mlx_lm.server` where it is installed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.app.clock import SystemClock
from stoker.config.load import load
from stoker.domain.lease import Target
from stoker.domain.serve import Secret, Serve, Tuning
from stoker.engines import plan
from stoker.engines.failures import classify
from stoker.engines.launch import LaunchPlace
from stoker.engines.mlx_lm import COMMAND
from stoker.engines.readiness import Readiness
from stoker.http import client

PLACE = LaunchPlace(1234, "sesame")
INSTALLED = shutil.which(COMMAND) or shutil.which(COMMAND, path=os.path.dirname(sys.executable))


def serve(directory: Path, **fields: Any) -> Serve:
    """With an `mlx_lm.server` on its PATH, and a model. What is no field of Serve goes into its tuning."""
    (directory / COMMAND).write_text("#!/bin/sh\n")
    (directory / COMMAND).chmod(0o755)
    (directory / "model").mkdir(exist_ok=True)
    (directory / "model" / "config.json").write_text("{}")
    own = {name: fields.pop(name) for name in list(fields) if not hasattr(Serve, name)}
    given = {"model": str(directory / "model"), "env": {"PATH": str(directory)}, **fields}
    return Serve(name="a", engine="mlx-lm", directory=str(directory), tuning=Tuning(**own), **given)


def test_every_key_is_said_in_its_words(tmp_path: Path) -> None:
    given = serve(
        tmp_path, context=4096, parallel=8, batched_tokens=512, kv_cache_type="q8_0", prefix_caching=False,
        thinking=False, sampling={"temperature": 0.7, "top_k": 20.0}, trust_remote_code=True,
        extra_args=("--log-level", "DEBUG"),
    )  # fmt: skip
    assert plan.problems(given) == []
    launch = plan.plan(given, PLACE)
    assert launch.argv == (
        f"{tmp_path}/{COMMAND}", "--model", f"{tmp_path}/model", "--host", "127.0.0.1", "--port", "1234",
        "--decode-concurrency", "8", "--prefill-step-size", "512", "--kv-bits", "8", "--prompt-cache-size", "0",
        "--chat-template-args", '{"enable_thinking": false, "thinking": false}', "--temp", "0.7", "--top-k", "20",
        "--trust-remote-code", "--log-level", "DEBUG",
    )  # fmt: skip
    assert not launch.takes_key
    assert any("asks for no key" in caution for caution in plan.cautions(given))


def test_what_it_cannot_express_is_a_sentence_with_what_to_do_instead(tmp_path: Path) -> None:
    given = serve(
        tmp_path, model="org/model", served_name="big", threads=4, kv_cache_type="fp8",
        sampling={"repetition_penalty": 1.1},
    )  # fmt: skip
    said = "\n".join(plan.unsupported(given))
    for part in ("no `threads`: it computes", "no `kv_cache_type` fp8: it is one of q4_0, q8_0", "in requests only",
                 "`stoker stage hf:org/model`", "write 'big' into `aliases`"):  # fmt: skip
        assert part in said


def test_a_serve_has_the_name_that_the_engine_gives_its_model(tmp_path: Path) -> None:
    serve(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    file = tmp_path / "stoker.toml"
    file.write_text('[[serve]]\nname = "a"\nengine = "mlx-lm"\nmodel = "./link"\naliases = ["b"]\n')
    settings = load(file)
    assert settings.serves[0].served_name == f"{tmp_path}/model"
    assert settings.serves[0].names() == ("a", "b"), "the path is no name for clients"


def test_its_last_words_are_known() -> None:
    for said, kind in (
        ("ValueError: Model type rwkv9 not supported.", "unsupported_architecture"),
        ("FileNotFoundError: No safetensors found in /w/model", "missing_weights"),
    ):
        failure = classify("mlx-lm", 1, said)
        assert failure is not None
        assert failure.kind == kind


@pytest.mark.skipif(INSTALLED is None, reason="no mlx_lm.server here: pip install mlx-lm 'mlx[cpu]'")
def test_the_real_one_starts_is_proved_and_answers(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = Serve(
        "a", engine="mlx-lm", model=model, served_name=model, directory=str(tmp_path), key=Secret("k", "env:K"),
        tuning=Tuning(thinking=False, sampling={"temperature": 0.0}, prefix_caching=False),
        env={"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert plan.problems(given) == []
    launch = plan.plan(given, LaunchPlace(port, ""))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            launch.argv, env={**os.environ, **given.env, **launch.environment}, stdout=log, stderr=log
        )

    async def story() -> None:
        target = Target("127.0.0.1", port)
        async with asyncio.timeout(120):
            await Readiness(given, target, SystemClock(), asyncio.Event()).prove(canary=True)
        turns = [{"role": "user", "content": "hi"}]
        answer = await client.ask(
            target, "/v1/chat/completions", {"model": model, "messages": turns, "max_tokens": 3}, 60.0
        )
        assert answer.json()["usage"]["completion_tokens"] == 3

    try:
        asyncio.run(story())
    finally:
        process.kill()
        process.wait()


def write_tiny(folder: Path) -> str:
    """A llama of random weights, in the layout of the hub; bytes are its tokens."""
    folder.mkdir()
    width, heads, hidden, words = 64, 1, 128, 259
    config = {
        "model_type": "llama", "hidden_size": width, "num_hidden_layers": 1, "intermediate_size": hidden,
        "num_attention_heads": heads, "rms_norm_eps": 1e-5, "vocab_size": words, "max_position_embeddings": 2048,
        "tie_word_embeddings": False, "bos_token_id": 256, "eos_token_id": 257,
    }  # fmt: skip
    layer, square = "model.layers.0.", (width, width)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (words, width), "lm_head.weight": (words, width), "model.norm.weight": (width,),
        f"{layer}input_layernorm.weight": (width,), f"{layer}post_attention_layernorm.weight": (width,),
        f"{layer}mlp.gate_proj.weight": (hidden, width), f"{layer}mlp.up_proj.weight": (hidden, width),
        f"{layer}mlp.down_proj.weight": (width, hidden),
        **{f"{layer}self_attn.{part}_proj.weight": square for part in "qkvo"},
    }  # fmt: skip
    random, entries, weights = np.random.default_rng(1), {}, b""
    for name, shape in shapes.items():
        values = random.standard_normal(shape).astype("<f4").tobytes()
        ends = [len(weights), len(weights) + len(values)]
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": ends}
        weights += values
    head = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + weights)
    shown = {byte: chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))}
    hidden_bytes = (byte for byte in range(256) if byte not in shown)
    shown |= {byte: chr(256 + at) for at, byte in enumerate(hidden_bytes)}
    vocabulary = {shown[byte]: byte for byte in range(256)} | {"<s>": 256, "</s>": 257, "<unk>": 258}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [{"id": 256 + at, "content": text, "special": True, **plain} for at, text in enumerate(("<s>", "</s>"))]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {
        "version": "1.0", "added_tokens": special, "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }  # fmt: skip
    documents = {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
            "chat_template": "{% for turn in messages %}{{ turn.content }}\n{% endfor %}",
        },
    }  # fmt: skip
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    return str(folder)
