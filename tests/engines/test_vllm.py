"""vLLM's command line: every key in its words, and what it cannot express."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Serve, Tuning
from stoker.engines import plan
from stoker.engines.launch import LaunchPlace

PLACE = LaunchPlace(1234, "sesame")


def serve(directory: Path, **fields: Any) -> Serve:
    """With a `vllm` on its PATH. What is no field of Serve goes into its tuning."""
    program(directory / "vllm")
    own = {name: fields.pop(name) for name in list(fields) if not hasattr(Serve, name)}
    given = {"model": "org/model", "served_name": "big", "env": {"PATH": str(directory)}, **fields}
    return Serve(name="a", engine="vllm", directory=str(directory), tuning=Tuning(**own), **given)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def line(given: Serve) -> str:
    return " ".join(plan.plan(given, PLACE).argv[1:])


def test_every_key_is_said_in_vllms_words(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    given = serve(
        tmp_path, context=32768, parallel=16, host="10.0.0.7", tensor_parallel=4, pipeline_parallel=2,
        memory_fraction=0.85, batched_tokens=8192, dtype="bfloat16", quantization="awq", kv_cache_type="fp8",
        attention_backend=("FLASH_ATTN",), prefix_caching=True, graphs=False, tool_parser="hermes",
        reasoning_parser="qwen3", chat_template="./chat.jinja", thinking=False,
        sampling={"temperature": 0.7, "top_k": 20.0}, rendezvous="10.0.0.7:29500", trust_remote_code=True,
        extra_args=("--seed", "1"),
    )  # fmt: skip
    assert plan.problems(given) == []
    launch = plan.plan(given, PLACE)
    assert launch.argv == (
        str(tmp_path / "vllm"), "serve", "org/model", "--served-model-name", "big", "--host", "10.0.0.7",
        "--port", "1234", "--max-num-seqs", "16", "--max-model-len", "32768", "--tensor-parallel-size", "4",
        "--pipeline-parallel-size", "2", "--gpu-memory-utilization", "0.85", "--max-num-batched-tokens", "8192",
        "--dtype", "bfloat16", "--quantization", "awq", "--kv-cache-dtype", "fp8",
        "--attention-backend", "FLASH_ATTN", "--enable-prefix-caching", "--enforce-eager",
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3",
        "--chat-template", str(tmp_path / "chat.jinja"),
        "--default-chat-template-kwargs", '{"enable_thinking": false, "thinking": false}',
        "--override-generation-config", '{"temperature": 0.7, "top_k": 20}',
        "--master-addr", "10.0.0.7", "--master-port", "29500", "--trust-remote-code", "--seed", "1",
    )  # fmt: skip
    assert launch.environment["VLLM_HOST_IP"] == "10.0.0.7", "its parts do not find each other by a public address"


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"speculative": "auto"}, ""),
        ({"speculative": "mtp"}, '--speculative-config {"method": "mtp", "num_speculative_tokens": 1}'),
        ({"speculative": "org/small"}, '--speculative-config {"model": "org/small", "num_speculative_tokens": 4}'),
        ({"adapters": ("/a/one", "/b/two/")}, "--enable-lora --lora-modules one=/a/one two=/b/two/"),
        ({"kv_offload": 3 * 2**29}, "--kv-offloading-size 1.5"),
        (
            {"kv_offload": 2**30, "kv_offload_backend": "lmcache"},
            "--kv-offloading-size 1 --kv-offloading-backend lmcache",
        ),
    ],
)
def test_what_is_loaded_beside_the_model(tuning: dict[str, Any], said: str, tmp_path: Path) -> None:
    plain, more = line(serve(tmp_path)), line(serve(tmp_path, **tuning))
    assert " ".join(word for word in more.split() if word not in plain.split()) == said
    assert plan.unsupported(serve(tmp_path, **tuning)) == []


def test_an_offload_of_the_cache_needs_its_size_and_a_known_backend(tmp_path: Path) -> None:
    [problem] = plan.unsupported(serve(tmp_path, kv_offload_backend="native"))
    assert "`kv_offload_backend` needs `kv_offload`" in problem
    [problem] = plan.unsupported(serve(tmp_path, kv_offload=1, kv_offload_backend="disk"))
    assert "it is one of native, lmcache" in problem


def test_what_is_not_given_is_left_to_vllm_and_code_of_the_model_is_not_run(tmp_path: Path) -> None:
    assert line(serve(tmp_path)) == (
        "serve org/model --served-model-name big --host 127.0.0.1 --port 1234 --max-num-seqs 4"
    )


def test_only_an_engine_that_spans_machines_is_told_its_address(tmp_path: Path) -> None:
    assert "VLLM_HOST_IP" not in plan.plan(serve(tmp_path, host="10.0.0.7"), PLACE).environment
    for nowhere in ("127.0.0.1", "0.0.0.0"):
        given = serve(tmp_path, host=nowhere, rendezvous="10.0.0.7:29500")
        assert "VLLM_HOST_IP" not in plan.plan(given, PLACE).environment


def test_prefix_caching_and_metrics_can_be_switched_off(tmp_path: Path) -> None:
    words_said = line(serve(tmp_path, prefix_caching=False, metrics=False))
    assert "--no-enable-prefix-caching" in words_said
    assert "--disable-log-stats" in words_said


def test_the_key_travels_in_the_environment(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path), PLACE)
    assert launch.takes_key
    assert launch.environment == {"VLLM_API_KEY": "sesame"}
    assert "sesame" not in " ".join(launch.argv)


def test_a_sleeper_gets_the_verbs_to_sleep_and_nobody_else_does(tmp_path: Path) -> None:
    launch = plan.plan(serve(tmp_path, sleep_level=2), PLACE)
    assert "--enable-sleep-mode" in launch.argv
    assert launch.environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert "--enable-sleep-mode" not in line(serve(tmp_path))


@pytest.mark.parametrize(
    ("installed", "preference", "chosen"),
    [
        ((), ("FLASHINFER", "TRITON_ATTN"), "TRITON_ATTN"),
        (("nvcc",), ("FLASHINFER", "FLASH_ATTN"), "FLASH_ATTN"),
        (("nvcc", "ninja"), ("FLASHINFER", "FLASH_ATTN"), "FLASH_ATTN"),
        (("nvcc", "ninja", "g++"), ("FLASHINFER", "FLASH_ATTN"), "FLASHINFER"),
        (("nvcc", "ninja", "c++"), ("FLASHINFER", "FLASH_ATTN"), "FLASHINFER"),
        (("nvcc", "ninja", "named"), ("FLASHINFER", "FLASH_ATTN"), "FLASHINFER"),
    ],
)
def test_the_first_backend_that_can_run_here_is_taken(
    tmp_path: Path, installed: tuple[str, ...], preference: tuple[str, ...], chosen: str
) -> None:
    for name in installed:
        program(tmp_path / name)
    env = {"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "none"), "CXX": "named -m64"}
    given = serve(tmp_path, attention_backend=preference, env=env)
    assert f"--attention-backend {chosen}" in line(given)
    assert plan.problems(given) == []


def test_the_compiler_may_lie_where_cuda_is_installed(tmp_path: Path) -> None:
    program(tmp_path / "ninja")
    program(tmp_path / "c++")
    program(tmp_path / "cuda" / "bin" / "nvcc")
    env = {"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "cuda")}
    assert plan.problems(serve(tmp_path, attention_backend=("flashinfer",), env=env)) == []


def test_no_backend_that_can_run_is_a_problem_that_names_what_to_install(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "CUDA_HOME": str(tmp_path / "none")}
    [problem] = plan.problems(serve(tmp_path, attention_backend=("FLASHINFER",), env=env))
    assert "FLASHINFER can run here" in problem
    assert "`nvcc` and `ninja` and `c++`" in problem


def test_a_vllm_that_is_not_there_is_named_with_what_to_type(tmp_path: Path) -> None:
    given = Serve(name="a", engine="vllm", model="org/m", directory=str(tmp_path), env={"PATH": str(tmp_path)})
    [problem] = plan.problems(given)
    assert "`pip install vllm`" in problem


@pytest.mark.parametrize(
    ("model", "said"),
    [("org/model", None), ("/nowhere/model", "does not exist"), ("{}/empty", "no config.json"), ("{}/whole", None)],
)
def test_a_model_on_disk_is_looked_at_and_a_hub_id_is_not(tmp_path: Path, model: str, said: str | None) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.json").write_text("{}")
    found = plan.problems(serve(tmp_path, model=model.format(tmp_path)))
    assert (found == []) if said is None else (said in found[0])


def test_a_chat_template_is_a_file_that_is_there(tmp_path: Path) -> None:
    [problem] = plan.problems(serve(tmp_path, chat_template="./no.jinja"))
    assert f"is not there: {tmp_path}/no.jinja" in problem
    [problem] = plan.problems(serve(tmp_path, chat_template="chatml"))
    assert "has no chat template named 'chatml'" in problem


def test_what_vllm_cannot_express_is_a_sentence_with_what_to_do_instead(tmp_path: Path) -> None:
    found = plan.unsupported(serve(tmp_path, threads=4, gpu_layers=10, kv_cache_type="q8_0"))
    assert [sentence.split(": ")[1] for sentence in found] == [
        "engine vLLM has no `threads`", "engine vLLM has no `gpu_layers`",
        "engine vLLM has no `kv_cache_type` q8_0, which is one of llama.cpp's",
    ]  # fmt: skip
    assert "OMP_NUM_THREADS" in found[0]


def test_a_command_of_ones_own_takes_the_key_from_the_environment_too(tmp_path: Path) -> None:
    given = serve(tmp_path, cmd=(str(tmp_path / "vllm"), "serve", "{model}", "--port", "{port}"))
    launch = plan.plan(given, PLACE)
    assert launch.environment == {"VLLM_API_KEY": "sesame"}
    assert launch.takes_key


def test_what_is_probably_not_meant_is_said(tmp_path: Path) -> None:
    assert plan.cautions(serve(tmp_path, sleep_level=1)) == []
    [slash] = plan.cautions(serve(tmp_path, served_name="org/big"))
    assert "add 'big' to `aliases`" in slash
    [reachable] = plan.cautions(serve(tmp_path, sleep_level=1, host="10.0.0.7"))
    assert "development endpoints, which ask for no key" in reachable


def test_the_command_is_found_beside_our_own_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = program(tmp_path / "venv" / "bin" / "vllm")
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv" / "bin" / "python"))
    given = Serve(name="a", engine="vllm", model="org/m", directory=str(tmp_path), env={"PATH": "/nowhere"})
    assert plan.problems(given) == []
    assert plan.plan(given, PLACE).argv[0] == str(beside)
