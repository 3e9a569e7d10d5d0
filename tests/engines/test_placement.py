"""Weights and caches lie under the vault root and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.serve import Driver, Serve
from stoker.engines.launch import LaunchPlace
from stoker.engines.placement import caches, placed, placement_problems
from stoker.engines.plan import cautions, plan


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "sglang", "openai"])
def test_each_serve_has_its_own_caches_under_the_vault(engine: str) -> None:
    one, other = caches(engine, "/vault", "a"), caches(engine, "/vault", "b")
    assert all(path.startswith("/vault/.cache/a") for path in one.values())
    assert not set(one.values()) & set(other.values())
    assert placement_problems(placed(Serve("a", engine=engine), "/vault"), "/vault") == []


def test_the_caches_of_kernels_are_among_them() -> None:
    shared = {"HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"}
    assert shared | {"VLLM_CACHE_ROOT"} <= caches("vllm", "/v", "a").keys()
    assert shared | {"SGLANG_CACHE_DIR"} <= caches("sglang", "/v", "a").keys()
    assert not shared & caches("llama.cpp", "/v", "a").keys()


def test_intels_compilers_keep_what_they_make_below_the_same_folder() -> None:
    serve = Serve("a", engine="openai", cmd=("engine",), env={"NEO_CACHE_PERSISTENT": "0"})
    environment = plan(placed(serve, "/v"), LaunchPlace(1, "")).environment
    assert environment["SYCL_CACHE_PERSISTENT"] == "1"
    assert "NEO_CACHE_PERSISTENT" not in environment, "its own `env` decides"
    assert "SYCL_CACHE_PERSISTENT" not in plan(serve, LaunchPlace(1, "")).environment, "without a vault: as it was"


def test_what_the_serves_own_env_says_stays_and_is_judged() -> None:
    serve = placed(Serve("a", engine="vllm", env={"HF_HOME": "/root-disk/hf", "MINE": "/anywhere"}), "/vault")
    assert serve.env["HF_HOME"] == "/root-disk/hf"
    [problem] = placement_problems(serve, "/vault")
    assert problem.startswith("serve 'a': `env.HF_HOME` is /root-disk/hf, outside the vault /vault:")


def test_weights_outside_the_vault_are_refused_and_a_hub_id_is_no_path() -> None:
    [problem] = placement_problems(Serve("a", model="/home/me/m.gguf"), "/vault")
    assert "`model` is /home/me/m.gguf" in problem
    assert placement_problems(Serve("a", model="/vaulted/m.gguf"), "/vault") != [], "a common beginning is not enough"
    assert placement_problems(Serve("a", engine="vllm", model="org/model"), "/vault") == []
    assert placement_problems(Serve("a", model="/vault/m.gguf"), "/vault/") == []


def test_symlinks_are_followed_out_of_the_vault_and_into_it(tmp_path: Path) -> None:
    vault, elsewhere = tmp_path / "vault", tmp_path / "elsewhere"
    vault.mkdir()
    elsewhere.mkdir()
    (vault / "out").symlink_to(elsewhere)
    (tmp_path / "in").symlink_to(vault)
    [problem] = placement_problems(Serve("a", model=str(vault / "out" / "m.gguf")), str(vault))
    assert f"(really {elsewhere}/m.gguf)" in problem
    assert placement_problems(Serve("a", model=str(tmp_path / "in" / "m.gguf")), str(vault)) == []
    assert placement_problems(Serve("a", model=str(vault / "m.gguf")), str(tmp_path / "in")) == []


@pytest.mark.parametrize("driver", [Driver.EXTERNAL, Driver.COMPOSE])
def test_what_has_a_file_system_of_its_own_is_left_alone(driver: Driver) -> None:
    serve = Serve("a", driver=driver, model="/home/x")
    assert placed(serve, "/vault") == serve
    assert placement_problems(serve, "/vault") == []


def test_a_serve_of_audio_is_nothing_for_them() -> None:
    text, audio = Serve("a", served_name="org/model"), frozenset((Dialect.SPEECH, Dialect.IMAGE))
    assert cautions(text)
    assert cautions(replace(text, dialects=audio)) == []
