"""What a serve's tuning becomes in the real llama.cpp: the words, llama.cpp's own parameters, and what they do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.tiny_gguf import write_tiny

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve, Tuning
from stoker.engines import embedded, plan
from stoker.engines.launch import LaunchPlace
from stoker.http import client

real = [
    pytest.mark.llama,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed"),
]
Tell = Callable[[Any], None]
SAMPLING = {"temperature": 0.25, "top_p": 0.5, "top_k": 7.0, "min_p": 0.125, "repetition_penalty": 1.5}
MESSAGES = [{"role": "user", "content": "Hi"}]


def serve(directory: Path, engine: str = "llama.cpp", **tuning: Any) -> Serve:
    model = write_tiny(directory / "tiny.gguf")
    return Serve(
        name="tiny", engine=engine, model=str(model), directory=str(directory), embedded=True, context=256, parallel=2,
        threads=1, stop_grace=3.0, tuning=Tuning(**tuning),
    )  # fmt: skip


def words(given: Serve) -> list[str]:
    """Without what every serve says."""
    said = plan.plan(given, LaunchPlace(1, "sesame")).argv
    return list(said[said.index("-t") + 2 : said.index("--no-slots")])


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({}, "--metrics"),
        ({"metrics": False}, ""),
        ({"batched_tokens": 64}, "-b 64 --metrics"),
        ({"kv_cache_type": "q8_0"}, "-ctk q8_0 -ctv q8_0 --metrics"),
        ({"attention_backend": ("flash", "none")}, "-fa on --metrics"),
        ({"attention_backend": ("none",)}, "-fa off --metrics"),
        ({"prefix_caching": True}, "--metrics"),
        ({"prefix_caching": False}, "--no-cache-prompt --metrics"),
        ({"reasoning_parser": "deepseek"}, "--reasoning-format deepseek --metrics"),
        ({"chat_template": "chatml"}, "--chat-template chatml --metrics"),
        ({"thinking": True}, "--reasoning on --metrics"),
        ({"thinking": False}, "--reasoning off --metrics"),
        ({"cpu_moe": True, "n_cpu_moe": 4}, "--metrics"),  # on processors all of it is in main memory
        ({"speculative": "auto"}, "--metrics"),
        ({"speculative": "mtp"}, "--spec-type draft-mtp --metrics"),
        ({"kv_offload": 3 * 2**20 + 1}, "--cache-ram 4 --metrics"),
        (
            {"sampling": SAMPLING},
            "--temp 0.25 --top-p 0.5 --top-k 7 --min-p 0.125 --repeat-penalty 1.5 --metrics",
        ),
    ],
)
def test_every_key_is_said_in_llama_cpps_words_and_the_embedded_engine_takes_them(
    tmp_path: Path, tuning: dict[str, Any], said: str
) -> None:
    given = serve(tmp_path, **tuning)
    assert " ".join(words(given)) == said
    assert plan.problems(given) == []
    assert embedded.refusal(words(given)) is None


def test_the_embedded_engine_takes_jinja_which_it_always_uses_and_cannot_switch_off() -> None:
    assert embedded.refusal(["--jinja"]) is None
    refused = embedded.refusal(["--no-jinja"])
    assert refused is not None
    assert "unrecognized arguments: --no-jinja" in refused
    assert "(it takes" not in refused, "no option to recommend"


def test_the_embedded_engines_refusal_names_the_nearest_option_and_where_all_are() -> None:
    refused = embedded.refusal(["--cache-typ-k", "q8_0"])
    assert refused is not None
    assert "(it takes --cache-type-k); what the embedded engine takes: stoker docs embedded engine options" in refused
    assert "--ctx-size" not in refused


def test_experts_are_left_in_main_memory_by_a_server_that_has_a_device(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    outside = {"embedded": False, "env": {"PATH": str(tmp_path)}}
    assert words(replace(serve(tmp_path, cpu_moe=True), **outside))[:1] == ["--cpu-moe"]  # type: ignore[arg-type]
    assert words(replace(serve(tmp_path, n_cpu_moe=4), **outside))[:2] == ["--n-cpu-moe", "4"]  # type: ignore[arg-type]
    [problem] = plan.problems(replace(serve(tmp_path, n_cpu_moe=4), gpu_layers=9))
    assert "which the embedded engine cannot beside a GPU: install llama.cpp's `llama-server`" in problem


def test_what_is_loaded_beside_the_model_has_to_be_there(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.gguf")
    given = serve(tmp_path, speculative=absent, mmproj=absent, adapters=(absent,))
    assert words(given)[:6] == ["-md", absent, "--mmproj", absent, "--lora", absent]
    assert embedded.refusal(words(given)) is None
    found = plan.problems(given)
    for what, problem in zip(("draft model", "projector", "adapter"), found, strict=True):
        assert problem.startswith(f"the {what} of serve 'tiny': {absent} does not exist")


def test_callers_share_no_cache_where_conversations_are_kept_apart(tmp_path: Path) -> None:
    [problem] = plan.unsupported(replace(serve(tmp_path, kv_offload=2**30), keep_conversations=True))
    assert "`kv_offload` and `keep_conversations` exclude each other" in problem


def test_a_chat_template_of_ones_own_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("x")
    given = serve(tmp_path, chat_template="t.jinja")
    assert words(given)[:2] == ["--chat-template-file", str(tmp_path / "t.jinja")]
    [problem] = plan.problems(serve(tmp_path, chat_template="./no.jinja"))
    assert f"is not there: {tmp_path}/no.jinja" in problem


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"tensor_parallel": 2}, "has no `tensor_parallel`: it uses all devices"),
        ({"trust_remote_code": True}, "has no `trust_remote_code`"),
        ({"tool_parser": "hermes"}, "has no `tool_parser`"),
        ({"kv_cache_type": "fp8"}, "has no `kv_cache_type` fp8: it is one of f32, f16"),
        ({"attention_backend": ("flash", "fa3")}, "has no `attention_backend` fa3: it is one of flash, none"),
        ({"reasoning_parser": "qwen3"}, "has no `reasoning_parser` qwen3"),
    ],
)
def test_what_llama_cpp_cannot_express_is_a_sentence(tmp_path: Path, tuning: dict[str, Any], said: str) -> None:
    [problem] = plan.unsupported(serve(tmp_path, **tuning))
    assert said in problem
    assert problem in plan.problems(serve(tmp_path, **tuning))


@pytest.mark.parametrize("mark", [pytest.param(None, marks=real)])
def test_each_word_reaches_llama_cpps_own_parameters(tmp_path: Path, mark: None) -> None:
    import xllamacpp

    (tmp_path / "t.jinja").write_text("a template")
    given = serve(
        tmp_path, batched_tokens=64, kv_cache_type="q8_0", attention_backend=("flash",), prefix_caching=False,
        reasoning_parser="deepseek-legacy", chat_template="t.jinja", thinking=False, sampling=SAMPLING, metrics=False,
    )  # fmt: skip
    options = embedded.option_parser().parse_args([*plan.plan(given, LaunchPlace(1, "sesame")).argv[4:], "--jinja"])
    params = embedded.engine_parameters(xllamacpp, options)
    q8_0, sampling = xllamacpp.ggml_type.GGML_TYPE_Q8_0, params.sampling
    assert (params.n_batch, params.cache_type_k, params.cache_type_v) == (64, q8_0, q8_0)
    assert params.flash_attn_type == xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert (params.cache_prompt, params.chat_template, params.endpoint_metrics) == (False, "a template", False)
    assert params.use_jinja
    legacy = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY
    assert (params.enable_reasoning, params.reasoning_format) == (0, legacy)
    assert (sampling.temp, sampling.top_p, sampling.top_k, sampling.min_p, sampling.penalty_repeat) == (
        0.25, 0.5, 7, 0.125, 1.5,
    )  # fmt: skip
    assert sampling.user_sampling_config == 2 | 4 | 8 | 64 | 256, "the model's own recommendation does not replace them"


async def asked(fleet: Any, workshop: Any, given: Serve, path: str, payload: Any = None) -> client.HttpResponse:
    """One question to a serve that is started for it."""
    running = await fleet.start(given, workshop.on_exit)
    try:
        return await client.ask(running.target, path, payload, 15.0)
    finally:
        await fleet.stop("tiny", 3)


async def props(fleet: Any, workshop: Any, **tuning: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await asked(fleet, workshop, serve(workshop.directory, **tuning), "/props")).json()
    return found


class TestRealStarts:
    pytestmark = real

    def test_a_real_start_shows_each_setting_that_llama_cpp_shows(self, tell: Tell) -> None:
        async def story(workshop: Any) -> None:
            fleet = workshop.supervisor()
            shown = (await props(fleet, workshop, sampling=SAMPLING))["default_generation_settings"]["params"]
            assert (shown["temperature"], shown["top_p"], shown["top_k"]) == (0.25, 0.5, 7)
            assert (shown["min_p"], shown["repeat_penalty"]) == (0.125, 1.5)
            shown = (await props(fleet, workshop, reasoning_parser="none"))["default_generation_settings"]["params"]
            assert shown["reasoning_format"] == "none"
            assert (await props(fleet, workshop, metrics=False))["endpoint_metrics"] is False
            assert (await props(fleet, workshop))["endpoint_metrics"] is True
            assert "<|im_start|>" in (await props(fleet, workshop, chat_template="chatml"))["chat_template"]
            await fleet.close(False)

        tell(story)

    @pytest.mark.parametrize(("thinking", "said"), [(True, "True"), (False, "False")])
    def test_thinking_is_switched_where_the_template_reads_it(self, tell: Tell, thinking: bool, said: str) -> None:
        async def story(workshop: Any) -> None:
            (workshop.directory / "t.jinja").write_text("{{ messages[0].content }} thinks: {{ enable_thinking }}")
            fleet = workshop.supervisor()
            given = serve(workshop.directory, chat_template="t.jinja", thinking=thinking)
            answer = await asked(fleet, workshop, given, "/apply-template", {"messages": MESSAGES})
            assert answer.json() == {"prompt": f"Hi thinks: {said}"}
            await fleet.close(False)

        tell(story)

    def test_a_draft_model_proposes_tokens(self, tell: Tell) -> None:
        async def story(workshop: Any) -> None:
            fleet = workshop.supervisor()
            given = serve(workshop.directory, speculative=str(workshop.directory / "tiny.gguf"))
            ask = {"prompt": "one two three four", "max_tokens": 16, "temperature": 0}
            timings = (await asked(fleet, workshop, given, "/v1/completions", ask)).json()["timings"]
            assert timings["draft_n_accepted"] > 0, "it is the model itself"
            await fleet.close(False)

        tell(story)

    @pytest.mark.parametrize(("kept", "cached"), [(False, False), (True, True)])
    def test_prompts_are_kept_or_forgotten(self, tell: Tell, kept: bool, cached: bool) -> None:
        async def story(workshop: Any) -> None:
            fleet = workshop.supervisor()
            running = await fleet.start(serve(workshop.directory, prefix_caching=kept), workshop.on_exit)
            ask = {"prompt": "one two three four", "max_tokens": 1, "id_slot": 0}
            await client.ask(running.target, "/v1/completions", ask, 15.0)
            again = (await client.ask(running.target, "/v1/completions", ask, 15.0)).json()
            assert (again["timings"]["cache_n"] > 0) is cached
            await fleet.close(False)

        tell(story)

    @pytest.mark.parametrize(
        "tuning",
        [{"kv_cache_type": "bf16"}, {"attention_backend": ("flash",)}, {"attention_backend": ("none",)},
         {"batched_tokens": 32}],
    )  # fmt: skip
    def test_it_gets_ready_with(self, tell: Tell, tuning: dict[str, Any]) -> None:
        async def story(workshop: Any) -> None:
            fleet = workshop.supervisor()
            answer = await asked(
                fleet,
                workshop,
                serve(workshop.directory, **tuning),
                "/v1/completions",
                {"prompt": "x", "max_tokens": 1},
            )
            assert answer.status == 200
            await fleet.close(False)

        tell(story)

    def test_a_cache_type_that_the_model_cannot_have_is_refused_with_advice(self, tell: Tell) -> None:
        async def story(workshop: Any) -> None:
            fleet = workshop.supervisor()
            with pytest.raises(StartFailed, match=r"remove `attention_backend` and `kv_cache_type`.*does not divide"):
                await fleet.start(serve(workshop.directory, kv_cache_type="q8_0"), workshop.on_exit)
            await fleet.close(False)

        tell(story)

    def test_a_template_that_vanished_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "t.jinja").write_text("x")
        argv = plan.plan(serve(tmp_path, chat_template="t.jinja"), LaunchPlace(1, "sesame")).argv
        (tmp_path / "t.jinja").unlink()
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert ended.returncode == 1
        assert f"{tmp_path}/t.jinja cannot be read: No such file or directory" in ended.stderr


def test_the_module_is_run_without_what_lies_in_the_working_directory(tmp_path: Path) -> None:
    assert plan.plan(serve(tmp_path), LaunchPlace(1, "sesame")).argv[:2] == (sys.executable, "-P")
