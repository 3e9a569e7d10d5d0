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
from collections.abc import Iterator
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
from stoker.http.client import HttpResponse

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
        "--max-tokens", "4096", "--decode-concurrency", "8", "--prefill-step-size", "512", "--kv-bits", "8",
        "--prompt-cache-size", "0", "--chat-template-args", '{"enable_thinking": false, "thinking": false}',
        "--temp", "0.7", "--top-k", "20",
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


def test_an_answer_without_a_limit_is_not_cut_at_its_512_tokens(tmp_path: Path) -> None:
    words = plan.plan(serve(tmp_path, extra_args=("--max-tokens", "99")), PLACE).argv
    assert words[words.index("--max-tokens") + 1] == "1000000"
    assert words[-2:] == ("--max-tokens", "99"), "the last one counts"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serve, Target]]:
    """The real server, with a tiny model, as Stoker starts it."""
    if INSTALLED is None:
        pytest.skip("no mlx_lm.server here: pip install mlx-lm 'mlx[cpu]'")
    place = tmp_path_factory.mktemp("mlx")
    model = write_tiny(place / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = Serve(
        "a", engine="mlx-lm", model=model, served_name=model, directory=str(place), key=Secret("k", "env:K"),
        tuning=Tuning(thinking=False, sampling={"temperature": 0.0}, prefix_caching=False),
        env={"HF_HOME": str(place / "hf"), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert plan.problems(given) == []
    launch = plan.plan(given, LaunchPlace(port, ""))
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            launch.argv, env={**os.environ, **given.env, **launch.environment}, stdout=log, stderr=log
        )
    try:
        yield given, Target("127.0.0.1", port)
    finally:
        process.kill()
        process.wait()


def asked(real: tuple[Serve, Target], path: str, **body: Any) -> HttpResponse:
    """What it answers, once it is ready."""
    given, target = real

    async def story() -> HttpResponse:
        async with asyncio.timeout(120):
            await Readiness(given, target, SystemClock(), asyncio.Event()).prove(canary=True)
        return await client.ask(target, path, body or None, 60.0)

    return asyncio.run(story())


TURNS = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"


def test_the_real_one_starts_is_proved_and_answers(real: tuple[Serve, Target]) -> None:
    answer = asked(real, CHAT, model=real[0].model, messages=TURNS, max_tokens=3)
    assert answer.json()["usage"]["completion_tokens"] == 3
    assert answer.json()["choices"][0]["finish_reason"] == "length"


def test_the_real_one_streams_usage_where_it_is_asked_for(real: tuple[Serve, Target]) -> None:
    told = asked(
        real, CHAT, model=real[0].model, messages=TURNS, max_tokens=3, stream=True,
        stream_options={"include_usage": True},
    ).body.decode()  # fmt: skip
    assert told.endswith("data: [DONE]\n\n")
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    assert events[-1]["usage"]["completion_tokens"] == 3
    assert events[-1]["choices"] == []


@pytest.mark.parametrize(
    "more",
    [
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
        {"stop": ["x"], "seed": 1, "top_k": 3, "min_p": 0.1, "logprobs": True, "top_logprobs": 2},
    ],
)
def test_the_real_one_takes_what_clients_send(real: tuple[Serve, Target], more: dict[str, Any]) -> None:
    assert asked(real, CHAT, model=real[0].model, messages=TURNS, max_tokens=3, **more).status == 200


def test_the_real_one_looks_for_other_models_that_are_named(real: tuple[Serve, Target]) -> None:
    """So Stoker never passes on a name that a client made up."""
    assert asked(real, CHAT, model="nobody/none", messages=TURNS, max_tokens=3).status == 404
    assert asked(real, CHAT, model=real[0].model, messages=TURNS, max_tokens=3).status == 200, "and is well again"


def test_the_real_one_has_no_metrics_and_no_embeddings(real: tuple[Serve, Target]) -> None:
    assert asked(real, "/metrics").status == 404
    assert asked(real, "/v1/embeddings", model=real[0].model, input="hi").status == 404
    assert asked(real, "/health").json() == {"status": "ok"}


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
