"""The end of every import: what keeps its serves from starting here is named, or it says what to type next."""

from __future__ import annotations

import json
import os
import socket
import tomllib
from pathlib import Path

import pytest
from tests.importing.ollama_home import OllamaHome

import stoker
from stoker.cli.main import run
from stoker.domain.access import Settings

Captured = pytest.CaptureFixture[str]
MODELS = Path(stoker.__file__).with_name("models")
SPARK = MODELS / "spark.gguf"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, with a `llama-server` on PATH."""
    home = tmp_path / "home"
    for folder in (home / "bin", home / "work"):
        folder.mkdir(parents=True)
    server = home / "bin" / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    for name in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "XDG_STATE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "work")
    return home / "work"


def without_llama_server(here: Path) -> None:
    (here.parent / "bin" / "llama-server").unlink()


def import_llama_swap(here: Path, models: str, *options: str) -> int:
    (here / "config.yaml").write_text(models)
    return run(["import", "llama-swap", "config.yaml", *options])


def dry_run_refuses(name: str, capsys: Captured) -> bool:
    """Whether `serves up NAME --dry-run` says that the start would be refused."""
    run(["serves", "up", name, "--dry-run", "--config", "stoker.toml"])
    return "refuse: " in capsys.readouterr().out


def test_next_is_said_when_everything_can_start(here: Path, capsys: Captured) -> None:
    text = f"models:\n  a: {{cmd: 'llama-server --port ${{PORT}} -m {SPARK}'}}\n"
    assert import_llama_swap(here, text) == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")
    assert not dry_run_refuses("a", capsys)


GONE = "gone.gguf does not exist: put the file there, or correct `model`"
WINDOWS = r"C:\tools\llama-server.exe"
MISSING = {
    "program": ("serve-model --port ${PORT}", "`serve-model` is not on PATH: install it"),
    "script": ("./start.sh ${PORT}", "start.sh is not an executable file"),
    "typed": ("llama-server --port ${PORT} -m gone.gguf -np 2", f"{GONE}\n"),
    "weights": ("llama-server --port ${PORT} -m gone.gguf", f"{GONE} and `cmd`\n"),
    "windows": (f"{WINDOWS} --port ${{PORT}} -m C:\\models\\x.gguf", WINDOWS),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_here_is_named_and_written_all_the_same(here: Path, capsys: Captured, case: str) -> None:
    command, expected = MISSING[case]
    good = f"{{cmd: 'llama-server --port ${{PORT}} -m {SPARK}'}}"
    text = f"models:\n  a: {{cmd: '{command}'}}\n  b: {good}\n"
    assert import_llama_swap(here, text) == 0, "a report, not a refusal"
    said = capsys.readouterr()
    assert expected in said.err
    assert "1 of 2 models cannot start here yet" in said.err
    assert "next: stoker up" not in said.out
    assert said.out.endswith("when that is done, check again: stoker doctor\n")
    assert [serve["name"] for serve in tomllib.loads((here / "stoker.toml").read_text())["serve"]] == ["a", "b"]


@pytest.mark.parametrize(
    "model", ["{cmd: 'serve-model --port ${PORT}'}", "{cmd: 'llama-server --port ${PORT} -np 1 -m x'}"]
)
def test_what_the_end_of_an_import_names_a_dry_run_refuses(here: Path, capsys: Captured, model: str) -> None:
    assert import_llama_swap(here, f"models:\n  a: {model}\n") == 0
    assert "cannot start here yet" in capsys.readouterr().err
    assert dry_run_refuses("a", capsys)


def test_models_that_lack_the_same_are_named_together(here: Path, capsys: Captured) -> None:
    models = "".join(f"  {name}: {{cmd: 'serve-model --port ${{PORT}}'}}\n" for name in "abcde")
    assert import_llama_swap(here, f"models:\n{models}") == 0
    said = capsys.readouterr().err
    assert "5 of 5 models cannot start here yet" in said
    assert said.count("serve-model") == 1
    assert "a, b, c and 2 more: the command `serve-model` is not on PATH" in said


def test_a_folder_that_is_gone_is_named(here: Path, capsys: Captured) -> None:
    text = f"models:\n  a: {{cmd: 'llama-server --port ${{PORT}} -m {SPARK}'}}\n"
    assert import_llama_swap(here, text, "--cwd", str(here / "gone")) == 0
    assert f"a: the directory {here / 'gone'} does not exist" in capsys.readouterr().err


def test_only_looking_tells_the_same_and_writes_nothing(here: Path, capsys: Captured) -> None:
    assert import_llama_swap(here, "models:\n  a: {cmd: 'serve-model --port ${PORT}'}\n", "--check") == 0
    assert "`serve-model` is not on PATH" in capsys.readouterr().err
    assert sorted(entry.name for entry in here.iterdir()) == ["config.yaml"]


def test_programs_read_it_too(here: Path, capsys: Captured) -> None:
    assert import_llama_swap(here, "models:\n  a: {cmd: 'serve-model --port ${PORT}'}\n", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["serve"] for one in found["not_ready"]] == ["a"]
    assert "is not on PATH" in found["not_ready"][0]["problem"]
    assert found["next"] == "stoker doctor"


def test_a_variable_that_is_not_set_is_named(here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_PROVIDERS_KEY", raising=False)
    (here / "config.yaml").write_text(
        "model_list:\n"
        + "".join(
            f"- model_name: {name}\n  litellm_params: {{model: openai/{name}, api_key: os.environ/MY_PROVIDERS_KEY}}\n"
            for name in "ab"
        )
    )
    assert run(["import", "litellm", "config.yaml"]) == 0
    said = capsys.readouterr()
    assert "  a, b: the environment variable MY_PROVIDERS_KEY is not set or empty; set it before you start" in said.err
    assert "next: stoker up" not in said.out
    monkeypatch.setenv("MY_PROVIDERS_KEY", "sk-1")
    assert run(["import", "litellm", "config.yaml", "--force"]) == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")


def test_a_port_that_is_taken_is_named_with_what_to_stop(here: Path, capsys: Captured) -> None:
    (here / "config.yaml").write_text("model_list:\n- model_name: a\n"
        "  litellm_params: {model: openai/x, api_base: http://127.0.0.1:9/v1, api_key: none}\n")  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(["import", "litellm", "config.yaml", "--port", str(port)]) == 0
        said = capsys.readouterr()
    assert f"127.0.0.1:{port} is in use by" in said.err
    assert f"(pid {os.getpid()}): stop it first" in said.err
    assert said.out.endswith("next: stoker up\n")


def test_models_of_a_folder_without_an_engine_are_named(
    here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_llama_server(here)
    monkeypatch.setattr("stoker.engines.llama_cpp.find_spec", lambda name: None)
    (here / "gguf").mkdir()
    (here / "gguf" / "spark.gguf").write_bytes(SPARK.read_bytes())
    assert run(["import", "llama.cpp", "gguf"]) == 0
    assert "needs llama.cpp" in capsys.readouterr().err


def test_presets_that_only_llama_server_can_start_are_named(here: Path, capsys: Captured) -> None:
    without_llama_server(here)
    (here / "models.ini").write_text("[small]\nhf-repo = someone/small-GGUF:Q4_K_M\n")
    assert run(["import", "llama.cpp", "models.ini"]) == 0
    assert "small: the command `llama-server` is not on PATH" in capsys.readouterr().err


def test_an_option_that_the_embedded_engine_refuses_is_not_said_to_be_carried(here: Path, capsys: Captured) -> None:
    without_llama_server(here)
    (here / "models.ini").write_text(f"[m]\nmodel = {SPARK}\nseed = 7\njinja = true\n")
    assert run(["import", "llama.cpp", "models.ini", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["report"]
    assert [row["outcome"] for row in rows if "seed" in row["key"]] == ["dropped"]
    assert [row["outcome"] for row in rows if "jinja" in row["key"]] == ["carried"]


def test_without_a_model_nothing_is_written(here: Path, capsys: Captured) -> None:
    (here / "models.ini").write_text("[*]\nctx-size = 4096\n")
    (here / "empty").mkdir()
    (here / "config.yaml").write_text("models: {}\n")
    for command, code, said in (
        (("llama.cpp", "models.ini"), 2, "--models-dir"),
        (("llama.cpp", "empty"), 1, "there is no model to import"),
        (("llama-swap", "config.yaml"), 1, "there is no model to import"),
    ):
        assert run(["import", *command]) == code, command
        assert said in capsys.readouterr().err
        assert not (here / "stoker.toml").exists()


def test_models_of_ollama_end_with_next(here: Path, capsys: Captured) -> None:
    OllamaHome(here.parent / ".ollama" / "models").model("spark/latest", SPARK.read_bytes())
    assert run(["import", "ollama"]) == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")


def test_models_of_lm_studio_end_with_next(here: Path, capsys: Captured) -> None:
    folder = here.parent / ".lmstudio" / "models" / "me" / "Spark-GGUF"
    folder.mkdir(parents=True)
    (folder / "spark.gguf").write_bytes(SPARK.read_bytes())
    assert run(["import", "lmstudio"]) == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")


def test_options_that_the_embedded_engine_refuses_are_no_advice(here: Path, capsys: Captured) -> None:
    without_llama_server(here)
    text = f"models:\n  a: {{cmd: 'llama-server --port ${{PORT}} -m {SPARK} -np 1 --mlock'}}\n"
    assert import_llama_swap(here, text) == 0
    said = capsys.readouterr().err
    assert "`llama-server`, which is not on PATH: install llama.cpp" in said
    assert "embedded = true" not in said, "it does not take --mlock"


def test_a_program_behind_a_shell_that_reads_secrets_is_named(here: Path, capsys: Captured) -> None:
    assert (
        import_llama_swap(here, "models:\n  a: {cmd: 'serve-model --port ${PORT} --api-key sk-engine-secret'}\n") == 0
    )
    assert "a: serve 'a' requires the command `serve-model`, which is not on PATH" in capsys.readouterr().err


def test_doctor_asks_for_no_file_of_a_model_that_has_none(here: Path, capsys: Captured) -> None:
    assert import_llama_swap(here, "models:\n  a: {cmd: 'llama-server --port ${PORT} -hf someone/small-GGUF'}\n") == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")
    run(["doctor"])
    assert "weights of a" not in capsys.readouterr().out


def test_doctor_finds_a_script_where_it_runs(here: Path, capsys: Captured) -> None:
    script = here.parent / "start.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert import_llama_swap(here, "models:\n  a: {cmd: './start.sh ${PORT}'}\n", "--cwd", str(here.parent)) == 0
    assert capsys.readouterr().out.endswith("next: stoker up\n")
    run(["doctor"])
    assert "no such command" not in capsys.readouterr().out


def test_a_preset_whose_file_is_not_here_is_written_and_named(here: Path, capsys: Captured) -> None:
    (here / "models.ini").write_text(
        "[*]\nctk = q8_0\nctv = q8_0\n\n[gone]\nmodel = E:\\models\\gone.gguf\nctx-size = 8192\nnp = 2\ntemp = 0.5\n"
        f"mlock = true\n\n[spark]\nmodel = {SPARK}\n"
    )
    assert run(["import", "llama.cpp", "models.ini"]) == 0
    said = capsys.readouterr()
    assert "gone: " in said.err
    assert r"E:\models\gone.gguf does not exist: put the file there, or correct `model`" in said.err
    gone, spark = sorted(
        tomllib.loads((here / "stoker.toml").read_text())["serve"], key=lambda serve: str(serve["name"])
    )
    assert spark["name"] == "spark"
    assert (gone["context"], gone["parallel"], gone["kv_cache_type"]) == (4096, 2, "q8_0")
    assert gone["extra_args"] == ["--mlock"]


def test_while_stoker_runs_with_this_file_reload_is_next(
    here: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def is_running(settings: Settings) -> bool:
        asked.append(settings.source)
        return True

    monkeypatch.setattr("stoker.cli.console.installation.is_running", is_running)
    assert import_llama_swap(here, f"models:\n  a: {{cmd: 'llama-server --port ${{PORT}} -m {SPARK}'}}\n") == 0
    assert capsys.readouterr().out.endswith("next: stoker reload\n")
    assert asked == [str(here / "stoker.toml")]
