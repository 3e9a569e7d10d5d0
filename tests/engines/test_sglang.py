"""SGLang's command line: every key in its words, and what it cannot express."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Secret, Serve, Tuning
from stoker.engines import plan, sglang
from stoker.engines.launch import LaunchPlace

PLACE = LaunchPlace(1234, "sesame")


def serve(directory: Path, **fields: Any) -> Serve:
    """With an `sglang` on its PATH. What is no field of Serve goes into its tuning."""
    program(directory / "sglang")
    own = {name: fields.pop(name) for name in list(fields) if not hasattr(Serve, name)}
    given = {"model": "org/model", "served_name": "big", "env": {"PATH": str(directory)}, **fields}
    return Serve(name="a", engine="sglang", directory=str(directory), tuning=Tuning(**own), **given)


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_every_key_is_said_in_sglangs_words(tmp_path: Path) -> None:
    given = serve(
        tmp_path, context=32768, parallel=16, host="10.0.0.7", tensor_parallel=4, pipeline_parallel=2,
        memory_fraction=0.85, batched_tokens=8192, dtype="bfloat16", quantization="fp8", kv_cache_type="fp8_e4m3",
        attention_backend=("fa3",), prefix_caching=False, graphs=False, tool_parser="qwen25",
        reasoning_parser="qwen3", chat_template="chatml", thinking=True, sampling={"min_p": 0.05},
        rendezvous="10.0.0.7:25000", trust_remote_code=True, extra_args=("--random-seed", "1"),
    )  # fmt: skip
    assert plan.problems(given) == []
    launch = plan.plan(given, PLACE)
    assert launch.argv == (
        str(tmp_path / "sglang"), "serve", "--model-path", "org/model", "--served-model-name", "big",
        "--host", "10.0.0.7", "--port", "1234", "--max-running-requests", "16", "--context-length", "32768",
        "--tensor-parallel-size", "4", "--pipeline-parallel-size", "2", "--mem-fraction-static", "0.85",
        "--chunked-prefill-size", "8192", "--dtype", "bfloat16", "--quantization", "fp8",
        "--kv-cache-dtype", "fp8_e4m3", "--attention-backend", "fa3", "--disable-radix-cache", "--disable-cuda-graph",
        "--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3", "--chat-template", "chatml",
        "--default-chat-template-kwargs", '{"enable_thinking": true, "thinking": true}',
        "--preferred-sampling-params", '{"min_p": 0.05}', "--dist-init-addr", "10.0.0.7:25000",
        "--trust-remote-code", "--enable-metrics", "--api-key", "sesame", "--random-seed", "1",
    )  # fmt: skip
    assert launch.environment == {"SGLANG_HOST_IP": "10.0.0.7"}


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"speculative": "mtp"}, "--speculative-algorithm NEXTN"),
        (
            {"speculative": "org/small"},
            "--speculative-algorithm STANDALONE --speculative-draft-model-path org/small",
        ),
        ({"adapters": ("/a/one.safetensors",)}, "--enable-lora --lora-paths one=/a/one.safetensors"),
        ({"kv_offload": 80 * 10**9}, "--enable-hierarchical-cache --hicache-size 80 --page-size 64"),
        (
            {"kv_offload": 80 * 10**9, "tensor_parallel": 8},
            "--tensor-parallel-size 8 --enable-hierarchical-cache --hicache-size 10 --page-size 64",
        ),
    ],
)
def test_what_is_loaded_beside_the_model(tuning: dict[str, Any], said: str, tmp_path: Path) -> None:
    plain, more = (plan.plan(serve(tmp_path, **given), PLACE).argv for given in ({}, tuning))
    assert " ".join(word for word in more if word not in plain) == said
    assert plan.unsupported(serve(tmp_path, **tuning)) == []


def test_what_is_not_given_is_left_to_sglang_but_metrics_are_on(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path, prefix_caching=True, graphs=True), PLACE)
    assert " ".join(launch.argv[2:]) == (
        "--model-path org/model --served-model-name big --host 127.0.0.1 --port 1234 --max-running-requests 4 "
        "--enable-metrics --api-key sesame"
    )
    assert "--enable-metrics" not in plan.plan(serve(tmp_path, metrics=False), PLACE).argv


def test_the_key_is_in_no_text_that_is_shown(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path), PLACE)
    assert launch.takes_key
    assert "sesame" not in repr(launch)


def test_a_sleeper_keeps_its_weights_in_host_memory(tmp_path: Path) -> None:
    argv = plan.plan(serve(tmp_path, sleep_level=1), PLACE).argv
    assert {"--enable-memory-saver", "--enable-weights-cpu-backup"} <= set(argv)
    assert not any("saver" in word for word in plan.plan(serve(tmp_path), PLACE).argv)


def test_there_is_one_depth_of_sleep(tmp_path: Path) -> None:
    assert plan.unsupported(serve(tmp_path, sleep_level=1)) == []
    [problem] = plan.unsupported(serve(tmp_path, sleep_level=2))
    assert "write `sleep_level = 1`" in problem


def test_a_colon_in_the_served_name_is_refused_with_the_name_to_take(tmp_path: Path) -> None:
    [problem] = plan.problems(serve(tmp_path, served_name="qwen:32b"))
    assert "write 'qwen-32b' and keep the old name in `aliases`" in problem
    assert plan.problems(serve(tmp_path, served_name="qwen-32b")) == []


def test_the_interpreter_of_the_command_runs_the_module(tmp_path: Path) -> None:
    given = serve(tmp_path)
    python = program(tmp_path / "python3")
    assert plan.plan(given, PLACE).argv[:3] == (str(python), "-m", "sglang.launch_server")


def test_our_own_interpreter_runs_it_where_it_is_installed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Serve(name="a", engine="sglang", model="org/m", directory=str(tmp_path), env={"PATH": str(tmp_path)})
    [problem] = plan.problems(given)
    assert "`pip install sglang`" in problem
    monkeypatch.setattr(sglang, "find_spec", lambda name: ModuleSpec(name, None))
    assert plan.problems(given) == []
    assert plan.plan(given, PLACE).argv[:4] == (sys.executable, "-P", "-m", "sglang.launch_server")


def test_what_it_cannot_express_is_a_sentence(tmp_path: Path) -> None:
    found = plan.unsupported(serve(tmp_path, threads=4, kv_cache_type="q8_0"))
    assert ["`threads`" in found[0], "q8_0" in found[1]] == [True, True]
    assert plan.unsupported(serve(tmp_path, kv_cache_type="bf16")) == []


def test_what_is_probably_not_meant_is_said(tmp_path: Path) -> None:
    found = plan.cautions(serve(tmp_path, key=Secret("x", "env:KEY"), sampling={"temperature": 0.1}))
    assert ["command line only" in found[0], "not for chat" in found[1]] == [True, True]
    assert plan.cautions(serve(tmp_path)) == []
