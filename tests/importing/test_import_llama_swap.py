"""`stoker import llama-swap`: what the imported file starts equals what llama-swap starts, argument for argument."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.importing.compare import argument_differences

from stoker.cli.main import run
from stoker.config.load import load
from stoker.domain.access import Settings
from stoker.domain.request_parameters import RequestParameters
from stoker.domain.serve import Serve
from stoker.engines.launch import LaunchPlace
from stoker.engines.plan import plan
from stoker.fleet.process.environment import child_environment

Captured = pytest.CaptureFixture[str]
FILES = Path(__file__).with_name("llama_swap_files")
EXPECTED = json.loads((FILES / "expected.json").read_text())
NAMES = sorted(EXPECTED)
PORT = 45678
STUB = """#!{python} -SE
import json, os, sys
print(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], dict(os.environ)]))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which llama-swap ran, with every engine on PATH as a program that prints its arguments."""
    programs, where = tmp_path / "bin", tmp_path / "cwd"
    programs.mkdir()
    (where / "models").mkdir(parents=True)
    (where / "models" / "exact.gguf").write_bytes(b"GGUF")
    stub = programs / "stub"
    stub.write_text(STUB.format(python=sys.executable))
    stub.chmod(0o755)
    for name in ("llama-server", "vllm", "sglang", "docker", "podman", "serve-model", "ollama", "whisper-server"):
        (programs / name).symlink_to(stub)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(where)
    return where


def set_variables(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for name, value in re.findall(r"^# env: ([A-Z_]+)=(.*)$", text, re.MULTILINE):
        monkeypatch.setenv(name, value)


def import_file(here: Path, text: str, *options: str) -> int:
    (here / "config.yaml").write_text(text)
    return run(["import", "llama-swap", "config.yaml", *options])


def document(here: Path) -> dict[str, Any]:
    return tomllib.loads((here / "stoker.toml").read_text())


def serve_for(settings: Settings, name: str) -> tuple[Serve, RequestParameters]:
    """The serve that a name means, and what is changed in its requests."""
    targets = {alias.name: alias.serve for alias in settings.aliases}
    targets |= {choice.name: choice.serves[0] for choice in settings.alias_choices}
    name = targets.get(name, name)
    for serve in settings.serves:
        for variant in serve.variants:
            if variant.name == name:
                return serve, serve.request.then(variant.request)
        if name in (serve.name, serve.served_name, *serve.aliases):
            return serve, serve.request
    raise AssertionError(f"no serve answers to {name}")


def changed(body: Mapping[str, Any], parameters: RequestParameters) -> dict[str, Any]:
    kept = {key: value for key, value in body.items() if key not in parameters.drop}
    return {**parameters.default, **kept, **parameters.set}


def started(serve: Serve, here: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """What a start of the serve runs, with its environment, by running it."""
    launch = plan(serve, LaunchPlace(serve.port or PORT, "engine-key-of-this-start"))
    environment = child_environment(os.environ, serve.env, launch.environment, serve.inherit_env)
    done = subprocess.run(launch.argv, env=environment, cwd=here, capture_output=True, text=True, check=True)
    program, argv, seen = json.loads(done.stdout)
    return {"program": program, "argv": argv, "port": serve.port or PORT, "cwd": str(here)}, seen


@pytest.mark.parametrize("file", NAMES)
def test_the_imported_file_starts_what_llama_swap_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    text = (FILES / file).read_text()
    set_variables(monkeypatch, text)
    assert import_file(here, text) == 0
    settings = load(here / "stoker.toml")
    for name, expected in EXPECTED[file].items():
        serve, parameters = serve_for(settings, name)
        start, environment = started(serve, here)
        assert start["program"] == expected["program"], name
        wrong, _ = argument_differences({**expected, "port": "PORT", "cwd": str(here)}, start)
        assert [one for one in wrong if not one.startswith("--api-key")] == [], name
        env = {key: value.replace("PORT", str(start["port"])) for key, value in expected["env"].items()}
        assert {key: environment.get(key) for key in env} == env, name
        asked = {"temperature": 0.123, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
        assert changed(asked, parameters) == {k: v for k, v in expected["body"].items() if k != "model"}, name


def test_the_files_use_every_key(here: Path) -> None:
    text = "\n".join((FILES / file).read_text() for file in NAMES)
    keys = """
    healthCheckTimeout globalTTL unloadTimeout logLevel logTimeFormat logToStdout logRequests metricsMaxInMemory
    captureBuffer ui session_id performance startPort sendLoadingState includeAliasesInList macros profiles pins
    selectors strategy targets spillover models cmd cmdStop name description env proxy aliases checkEndpoint ttl
    useModelName filters stripParams strip_params setParams setParamsByID metadata concurrencyLimit unlisted
    timeouts compat ignoreWebsockets capabilities groups swap exclusive persistent members matrix vars
    evict_costs sets hooks on_startup preload apiKeys peers apiKey upstream ignorePaths routing scheduler fifo
    priority router
    """
    assert [path.name for path in sorted(FILES.glob("*.yaml"))] == NAMES
    assert [key for key in keys.split() if not re.search(rf"\b{key}\b", text)] == []


# -- what is carried ----------------------------------------------------------------------------------------------


def test_models_that_swap_share_a_slot_and_others_do_not(here: Path) -> None:
    assert import_file(here, (FILES / "08-groups.yaml").read_text()) == 0
    found = {serve["name"]: serve.get("slot") for serve in document(here)["serve"]}
    groups = {"a1": "first-gpu", "a2": "first-gpu", "b1": "second", "b2": "second"}
    assert found == {**groups, "loose": None, "keep": None}, "loading a1 does not unload the one that is in no group"
    assert [serve["name"] for serve in document(here)["serve"] if serve.get("preload")] == ["keep"]


def test_an_alias_among_the_members_of_a_group_counts_for_nothing(here: Path, capsys: Captured) -> None:
    models = "models:\n" + "".join(
        f"  {name}: {{cmd: 'serve-model --port ${{PORT}}', aliases: [{name}-too]}}\n" for name in "abc"
    )
    assert import_file(here, models + "groups: {g: {swap: false, members: [a, c]}}\n") == 0
    plain = document(here)
    capsys.readouterr()
    assert import_file(here, models + "groups: {g: {swap: false, members: [a, b-too, c]}}\n", "--force") == 0
    assert "'b-too' is an alias of b" in capsys.readouterr().out
    assert document(here) == plain


def test_a_matrix_becomes_sets(here: Path, capsys: Captured) -> None:
    assert import_file(here, (FILES / "10-matrix.yaml").read_text(), "--json") == 0
    (row,) = [row for row in report(capsys) if row["key"] == "matrix"]
    assert "used last" in row["note"], "of sets that cost the same"
    found = document(here)
    [slot] = found["slots"].values()
    assert slot["together"] == [["gemma", "rerank", "voice"], ["qwen", "rerank", "voice"]]
    assert {serve["name"]: serve["evict_cost"] for serve in found["serve"]}["voice"] == 50
    load(here / "stoker.toml")


def test_one_command_becomes_keys_where_that_is_exact(here: Path) -> None:
    assert import_file(here, (FILES / "14-typed.yaml").read_text()) == 0
    exact, uneven, elsewhere = document(here)["serve"]
    assert "cmd" not in exact
    assert (exact["context"], exact["parallel"], exact["gpu_layers"], exact["threads"]) == (8192, 4, 99, 8)
    assert exact["extra_args"] == ["--jinja", "--temp", "0.7", "-ctk", "q8_0", "-ctv", "q8_0"]
    assert "cmd" in uneven
    assert elsewhere["identity"] == "none"


def test_a_path_goes_up_where_it_went_up(here: Path) -> None:
    """Behind a symbolic link `x/../m.gguf` is another file than `m.gguf`."""
    command = "llama-server --port ${PORT} -m models/link/../exact.gguf -np 1"
    assert import_file(here, f"models:\n  a: {{cmd: '{command}'}}\n") == 0
    (serve,) = load(here / "stoker.toml").serves
    start, _ = started(serve, here)
    assert start["argv"][start["argv"].index("-m") + 1] == "models/link/../exact.gguf"


def test_a_parameter_with_a_question_mark_is_a_default(here: Path) -> None:
    text = "models:\n  a:\n    cmd: serve-model --port ${PORT}\n    filters: {setParams: {'seed?': 7, top_p: 1}}\n"
    assert import_file(here, text) == 0
    assert document(here)["serve"][0]["request"] == {"set": {"top_p": 1}, "default": {"seed": 7}}


def test_commands_run_where_llama_swap_ran_them_wherever_the_configuration_lies(here: Path, tmp_path: Path) -> None:
    text = (FILES / "15-relative.yaml").read_text()
    assert import_file(here, text) == 0
    near, _ = document(here)["serve"]
    assert (near["cmd"].split()[3:5], near["model"], near.get("cwd")) == (
        ["-m", "models/near.gguf"],
        "models/near.gguf",
        None,
    )
    other = tmp_path / "other.toml"
    assert run(["import", "llama-swap", "config.yaml", "--path", str(other)]) == 0
    near, script = tomllib.loads(other.read_text())["serve"]
    assert near["cmd"].split()[3:5] == ["-m", "models/near.gguf"], "words of a command stay as they are"
    assert (near["model"], near["cwd"], script["cwd"]) == (f"{here}/models/near.gguf", str(here), str(here))
    assert load(other).serves[0].working_directory == str(here)


@pytest.mark.parametrize(
    "command",
    [
        "docker run --rm -p ${PORT}:8000 --name a vllm/vllm-openai:v0.13.0 --model someone/small-7b --port 8000",
        "vllm serve --model someone/small-7b --port ${PORT}",
        "vllm serve someone/small-7b --port ${PORT}",
        "python3 -m vllm.entrypoints.openai.api_server --model someone/small-7b --port ${PORT}",
        "mlx_lm.server --model someone/small-7b --port ${PORT}",
        'bash -c "vllm serve someone/small-7b --port ${PORT}"',
    ],
)
def test_names_of_the_hub_and_of_modules_stay_names(here: Path, tmp_path: Path, command: str) -> None:
    other = tmp_path / "other.toml"
    (here / "config.yaml").write_text(f"models:\n  a:\n    cmd: {json.dumps(command)}\n")
    assert run(["import", "llama-swap", "config.yaml", "--path", str(other)]) == 0
    (serve,) = load(other).serves
    words = [word.replace("{port}", "${PORT}") for word in serve.cmd or ()]
    assert words == shlex.split(command)
    assert serve.model in ("", "someone/small-7b")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("C:\\llama\\llama-server.exe --port ${PORT} -m C:\\models\\new\\a.gguf",
         ["C:\\llama\\llama-server.exe", "--port", "{port}", "-m", "C:\\models\\new\\a.gguf"]),
        ('"C:\\Program Files\\llama-server.exe" --port ${PORT} -m "D:\\a b.gguf" --chat-template-kwargs "{\\"a\\": 1}"',
         ["C:\\Program Files\\llama-server.exe", "--port", "{port}", "-m", "D:\\a b.gguf",
          "--chat-template-kwargs", '{"a": 1}']),
        (".\\bin\\llama-server.exe --port ${PORT} -m models\\\\x.gguf --note 'a b'",
         [".\\bin\\llama-server.exe", "--port", "{port}", "-m", "models\\\\x.gguf", "--note", "'a", "b'"]),
    ],
)  # fmt: skip
def test_a_command_of_windows_keeps_its_backslashes(
    here: Path, capsys: Captured, command: str, expected: list[str]
) -> None:
    assert import_file(here, f"models:\n  a:\n    cmd: |\n      {command}\n", "--json") == 0
    (serve,) = load(here / "stoker.toml").serves
    assert list(serve.cmd or ())[: len(expected)] == expected
    assert serve.engine == "llama.cpp"
    (row,) = [row for row in report(capsys) if row["key"] == "cmd"]
    assert (row["outcome"], "of Windows" in row["note"]) == ("changed", True)


def test_models_on_one_port_take_turns(here: Path, capsys: Captured) -> None:
    """llama-swap takes such a file, although the second engine cannot start beside the first."""
    text = "".join(
        f"  {name}: {{cmd: 'serve-model --port {port}', proxy: 'http://127.0.0.1:{port}'}}\n"
        for name, port in (("a", 9100), ("b", 9100), ("c", 9101))
    )
    assert import_file(here, f"models:\n{text}groups: {{g: {{swap: false, members: [a, b, c]}}}}\n", "--json") == 0
    slots = {serve.name: serve.slot for serve in load(here / "stoker.toml").serves}
    assert (slots["a"], slots["b"] == slots["a"], slots["c"]) == ("g", True, None)
    assert [
        row["model"] for row in report(capsys) if row["outcome"] == "changed" and "its one port" in (row["note"] or "")
    ] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "models:\n  a: {cmd: 'serve-model --port 8080', proxy: 'http://127.0.0.1:8080'}\n",
        "models:\n  a: {cmd: '', proxy: 'http://localhost:8080'}\n",
        "peers: {p: {proxy: 'http://127.0.0.1:8080', models: [x]}}\n",
    ],
    ids=["a server", "an external one", "a peer"],
)
def test_a_file_that_uses_llama_swaps_usual_port_gets_another(here: Path, text: str) -> None:
    assert import_file(here, text) == 0
    assert document(here)["front_door"]["port"] == 8081
    assert import_file(here, text, "--force", "--port", "9000") == 0
    assert load(here / "stoker.toml").front_door.port == 9000


def test_servers_of_other_machines_may_have_one_port(here: Path) -> None:
    text = "".join(
        f"  {name}: {{cmd: 'serve-model {name}', proxy: 'http://{name}:8000'}}\n" for name in ("box-a", "box-b")
    )
    assert import_file(here, f"models:\n{text}groups: {{g: {{swap: false, members: [box-a, box-b]}}}}\n") == 0
    found = load(here / "stoker.toml").serves
    assert [(serve.host, serve.port, serve.slot) for serve in found] == [("box-a", 8000, None), ("box-b", 8000, None)]


def test_engines_inherit_the_environment_but_for_secrets(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "1")
    monkeypatch.setenv("OTHER_API_KEY", "secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert import_file(here, "models:\n  a: {cmd: 'serve-model --port ${PORT}'}\n") == 0
    (serve,) = load(here / "stoker.toml").serves
    _, seen = started(serve, here)
    assert (seen.get("MY_SETTING"), seen.get("OTHER_API_KEY"), seen.get("HF_TOKEN")) == ("1", None, "hf_secret")


EVERYTHING = ["chat", "completions", "embeddings", "image", "rerank", "speech", "transcription"]


@pytest.mark.parametrize(
    ("model", "dialects"),
    [
        ("{cmd: 'llama-server --port ${PORT} -m x --embeddings'}", ["embeddings"]),
        ("{cmd: 'llama-server --port ${PORT} -m x --reranking'}", ["rerank"]),
        ("{cmd: 'llama-server --port ${PORT} -m x'}", None),
        ("{cmd: 'llama-server --port ${PORT} -m x --mmproj y'}",
         ["chat", "completions", "messages", "responses", "transcription"]),
        ("{cmd: 'vllm serve BAAI/bge-m3 --port ${PORT} --task embed'}", ["embeddings"]),
        ("{cmd: 'vllm serve BAAI/bge-reranker-v2-m3 --port ${PORT}'}", ["rerank"]),
        ("{cmd: 'whisper-server --port ${PORT}'}", ["transcription"]),
        ("{cmd: './tts.sh ${PORT}', capabilities: {out: [audio]}}", ["speech"]),
        ("{cmd: './start.sh ${PORT}', capabilities: {reranker: true}}", ["rerank"]),
        ("{cmd: './start.sh ${PORT}', aliases: [nomic-embed-text]}", ["embeddings"]),
        ("{cmd: './start.sh ${PORT}'}", EVERYTHING),
    ],
)  # fmt: skip
def test_what_an_engine_answered_it_answers(here: Path, model: str, dialects: list[str] | None) -> None:
    assert import_file(here, f"models:\n  a: {model}\n") == 0
    assert sorted(document(here)["serve"][0].get("dialects", ())) == (dialects or [])
    load(here / "stoker.toml")


def test_literal_braces_reach_the_engine_as_they_are(here: Path) -> None:
    assert import_file(here, "models:\n  a: {cmd: 'serve-model --port ${PORT} a{model}b {name} {\"x\":1}'}\n") == 0
    (serve,) = load(here / "stoker.toml").serves
    start, _ = started(serve, here)
    assert start["argv"][-3:] == ["a{model}b", "{name}", "{x:1}"]


@pytest.mark.parametrize(
    "text",
    [
        "models:\n  a: {cmd: 'serve-model --port ${PORT}', metadata: {'${unknown}': 1}}\n",
        "notes: 'uses ${unknown}'\nmodels:\n  a: {cmd: 'serve-model --port ${PORT}'}\n",
        "models:\n  a:\n    cmd: serve-model --port ${PORT}\n    description: |\n      two\n      lines\n",
    ],
    ids=["a macro in a key", "a macro in an unknown key", "a description of two lines"],
)
def test_what_llama_swap_takes_is_not_refused(here: Path, text: str) -> None:
    assert import_file(here, text) == 0
    load(here / "stoker.toml")


def test_dotted_parameters_are_paths(here: Path, capsys: Captured) -> None:
    filters = (
        "{setParams: {chat_template_kwargs.a: 1, 'plain\\.dot': 2, list.0: 3},"
        " setParamsByID: {'m:fast': {chat_template_kwargs.enable_thinking: false}}, stripParams: 'a.b'}"
    )
    assert (
        import_file(here, f"models:\n  m: {{cmd: 'serve-model --port ${{PORT}}', filters: {filters}}}\n", "--json") == 0
    )
    outcomes = {row["key"]: row["outcome"] for row in report(capsys)}
    (serve,) = document(here)["serve"]
    assert serve["request"] == {"set": {"chat_template_kwargs": {"a": 1}, "plain.dot": 2}}
    assert serve["variant"] == [{"name": "m:fast", "set": {"chat_template_kwargs": {"a": 1, "enable_thinking": False}}}]
    assert outcomes["filters.setParams.list.0"] == outcomes["filters.stripParams"] == "dropped"


def test_parameters_of_a_models_own_id_do_not_reach_its_other_names(here: Path) -> None:
    text = (
        "models:\n  m:\n    cmd: serve-model --port ${PORT}\n    aliases: [other]\n"
        "    filters: {setParamsByID: {m: {temperature: 0}, 'm:warm': {top_p: 1}}}\n"
        "selectors: {s: {strategy: pin, targets: ['m:warm']}, t: {strategy: pin, targets: [m]}}\n"
    )
    assert import_file(here, text) == 0
    settings = load(here / "stoker.toml")
    asked = {"messages": [], "temperature": 0.5}
    seen = {name: changed(asked, serve_for(settings, name)[1]) for name in ("m", "other", "m:warm", "s", "t")}
    assert {name: (one["temperature"], one.get("top_p")) for name, one in seen.items()} == {
        "m": (0, None), "other": (0.5, None), "m:warm": (0.5, 1), "s": (0.5, 1), "t": (0, None),
    }  # fmt: skip


def test_engines_and_peers_may_call_their_models_alike(here: Path) -> None:
    text = (
        "models:\n  a: {cmd: 'mlx_lm.server --port ${PORT}', useModelName: default_model}\n"
        "  b: {cmd: 'mlx_lm.server --port ${PORT}', useModelName: default_model}\n"
        "peers:\n  p: {proxy: 'http://127.0.0.1:9', models: [x, a]}\n  q: {proxy: 'http://127.0.0.1:8', models: [x]}\n"
    )
    assert import_file(here, text) == 0
    found = {serve.name: serve for serve in load(here / "stoker.toml").serves}
    assert (found["a"].served_name, found["b"].served_name) == ("default_model", "default_model")
    assert {name: serve.names() for name, serve in found.items() if serve.base_url} == {
        "p-x": ("p-x", "p/x", "x"), "p-a": ("p-a", "p/a"), "q-x": ("q-x", "q/x"),
    }  # fmt: skip


def test_secrets_are_in_files_of_their_owner_and_nowhere_else(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    text = (FILES / "18-secrets.yaml").read_text()
    set_variables(monkeypatch, text)
    assert import_file(here, text) == 0
    said = capsys.readouterr()
    written = (here / "stoker.toml").read_text() + said.out + said.err
    for secret in ("hf_abcdef123456", "a-key-for-both-sides", "sk-literal-key-of-a-person", "sk-short", "sk-engine"):
        assert secret not in written
    door = document(here)["front_door"]
    assert [key["value"] for key in door["keys"]] == [
        "env:TEAM_KEY",
        "file:keys/llama-swap-2",
        "file:keys/llama-swap-3",
    ]
    assert {stat.st_mode & 0o777 for stat in (path.stat() for path in (here / "keys").iterdir())} == {0o600}
    assert len((here / "keys" / "llama-swap-3").read_text().strip()) >= 16, "a short key is replaced"


# -- what is reported ---------------------------------------------------------------------------------------------


def report(capsys: Captured) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["report"]
    return found


def test_every_key_of_a_file_is_in_the_report(here: Path, capsys: Captured) -> None:
    assert import_file(here, (FILES / "20-everything-else.yaml").read_text(), "--check", "--json") == 0
    rows = {row["key"]: row["outcome"] for row in report(capsys)}
    for key in ("logLevel", "logTimeFormat", "logToStdout", "logRequests", "metricsMaxInMemory", "captureBuffer", "ui",
                "performance", "timeouts", "capabilities.out", "capabilities.tools"):  # fmt: skip
        assert rows[key] == "dropped", key
    assert rows["upstream.ignorePaths"] == "carried"
    for key in ("listen", "health_check_timeout", "defaults", "tags", "readyTimeout"):
        assert rows[key] == "ignored", key
    assert rows["sendLoadingState"] in ("carried", "dropped")
    assert not (here / "stoker.toml").exists()


def test_an_unknown_key_is_reported_with_what_was_probably_meant(here: Path, capsys: Captured) -> None:
    text = "models:\n  a: {cmd: 'llama-server --port ${PORT} -m x', alias: [b], tll: 3}\n"
    assert import_file(here, text, "--json") == 0
    notes = {row["key"]: row["note"] for row in report(capsys)}
    assert "did you mean aliases?" in notes["alias"]
    assert "did you mean ttl?" in notes["tll"]


def test_a_model_that_cannot_be_carried_stops_the_import_but_for_partial(here: Path, capsys: Captured) -> None:
    text = "models:\n  bad: {cmd: 'serve-model --port ${PORT}', proxy: 'ftp://h'}\n"
    text += "  good: {cmd: 'serve-model --port ${PORT}'}\n"
    assert import_file(here, text) == 1
    assert not (here / "stoker.toml").exists()
    assert "could not be carried: bad" in capsys.readouterr().err
    assert import_file(here, text, "--partial") == 1
    assert [serve["name"] for serve in document(here)["serve"]] == ["good"]


def test_an_existing_file_is_not_overwritten(here: Path, capsys: Captured) -> None:
    (here / "stoker.toml").write_text("mine")
    assert import_file(here, (FILES / "01-one-model.yaml").read_text()) == 2
    assert "--force" in capsys.readouterr().err
    assert (here / "stoker.toml").read_text() == "mine"
    assert run(["import", "llama-swap", "config.yaml", "--force"]) == 0
    assert (here / "stoker.toml.bak").read_text() == "mine"
    assert f"is kept: {here / 'stoker.toml.bak'}" in capsys.readouterr().err
    assert run(["import", "llama-swap", "config.yaml", "--force"]) == 0
    assert not (here / "stoker.toml.bak2").exists(), "nothing is lost where nothing changes"


# -- wrong input --------------------------------------------------------------------------------------------------

ONE = "models:\n  a: {cmd: 'llama-server --port ${PORT} -m x'}\n"


def wrong_inputs() -> Iterator[tuple[str, str, str]]:
    yield "not YAML", "models: [", "config.yaml:1: not YAML"
    yield "a list", "- a\n", "not llama-swap's configuration"
    yield "empty", "", "empty"
    yield "Docker Compose", "services:\n  a: {image: x}\n", "a Docker Compose file"
    yield "LiteLLM", "model_list: []\n", "stoker import litellm"
    yield "Kubernetes", "apiVersion: v1\nkind: Pod\n", "a Kubernetes manifest"
    yield "another", "modles: {}\n", "did you mean 'models'?"
    yield (
        "no models",
        "healthCheckTimeout: 60\nmacros: {a: b}\n",
        "if they are in other files, name these too: --config-dir",
    )
    yield "a key twice", ONE + "  a: {cmd: x}\n", "config.yaml:3: the key 'a' is there twice"
    yield "a macro of itself", "macros: {a: '${a}'}\n" + ONE, "macros.a: uses itself"
    yield "a circle", "macros: {a: '${b}', b: '${a}'}\nmodels: {m: {cmd: 'x ${PORT} ${a}'}}\n", "is no macro"
    yield "a macro later", "macros: {a: '${b}', b: x}\nmodels: {m: {cmd: 'x ${PORT} ${a}'}}\n", "declared before"
    yield "a reserved macro", "macros: {PORT: 1}\n" + ONE, "reserved"
    yield "a macro of a list", "macros: {a: [1]}\n" + ONE, "must be text, a number"
    yield "a variable", ONE.replace("-m x", "-m ${env.NOT_SET}"), "config.yaml:2: the environment variable NOT_SET"
    yield "no port", "models:\n  a: {cmd: llama-server -m x}\n", "`proxy` must say where the server listens"
    yield "a port of the proxy", "models: {a: {cmd: x, proxy: 'http://h:${PORT}'}}\n", "uses ${PORT}, and cmd does not"
    yield (
        "an alias of two",
        ONE + "  b: {cmd: 'x ${PORT}', aliases: [c]}\n  d: {cmd: 'x ${PORT}', aliases: [c]}\n",
        "'c'",
    )
    yield "a group of nobody", ONE + "groups: {g: {members: [b]}}\n", "groups.g.members: there is no model 'b'"
    yield "two groups", ONE + "groups: {g: {members: [a]}, h: {members: [a]}}\n", "is in group 'g' already"
    yield "groups and matrix", ONE + "groups: {g: {members: [a]}}\nmatrix: {sets: {s: a}}\n", "keep one of the two"
    yield "both styles", ONE + "matrix: {sets: {s: a}}\nrouting: {router: {use: group}}\n", "keep one of the two"
    yield "a matrix of nobody", ONE + "matrix: {sets: {s: a & b}}\n", "matrix.sets.s: there is no model 'b'"
    yield "a matrix circle", ONE + "matrix: {sets: {s: +t, t: +s}}\n", "refers to itself: s -> t -> s"
    yield "a broken matrix", ONE + "matrix: {sets: {s: (a}}\n", "a closing parenthesis is missing"
    yield "a selector", ONE + "selectors: {s: {strategy: best, targets: [a]}}\n", "must be pin, warm or spillover"
    yield (
        "a target",
        ONE + "selectors: {s: {strategy: pin, targets: [b]}}\n",
        "selectors.s.targets: there is no model 'b'",
    )
    yield (
        "a chain",
        ONE + "selectors: {s: {strategy: pin, targets: [t]}, t: {strategy: pin, targets: [a]}}\n",
        "chained",
    )
    yield "a selector's name", ONE + "selectors: {a: {strategy: pin, targets: [a]}}\n", "is the name of a model"
    yield "a type", ONE + "healthCheckTimeout: soon\n", "healthCheckTimeout: must be a whole number"
    yield "a priority", ONE + "routing: {scheduler: {settings: {fifo: {priority: {b: 1}}}}}\n", "there is no model 'b'"
    yield "a key with a space", "apiKeys: ['a b']\n" + ONE, "apiKeys[0]"
    yield "a peer", ONE + "peers: {p: {models: [m]}}\n", "peers.p.proxy: is required"


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*rest, id=name) for name, *rest in wrong_inputs()])
def test_a_wrong_file_is_refused_with_what_and_where(here: Path, capsys: Captured, text: str, expected: str) -> None:
    assert import_file(here, text) == 2
    said = capsys.readouterr()
    assert expected in said.err, said.err
    assert not (here / "stoker.toml").exists()


def test_several_files_are_merged_as_llama_swap_merges_them(here: Path, capsys: Captured) -> None:
    folder = here / "conf.d"
    folder.mkdir()
    keys = "apiKeys: [sixteen-characters-2]\n"
    (folder / "b.yaml").write_text("models: {b: {cmd: 'serve-model --port ${PORT} ${x}'}}\n" + keys)
    (folder / "a.yml").write_text(ONE + "macros: {x: merged}\napiKeys: [sixteen-characters-1]\n")
    assert run(["import", "llama-swap", "--config-dir", "conf.d"]) == 0
    assert [serve["name"] for serve in document(here)["serve"]] == ["a", "b"]
    assert len(document(here)["front_door"]["keys"]) == 2
    (folder / "c.yaml").write_text(ONE)
    assert run(["import", "llama-swap", "--config-dir", "conf.d", "--force"]) == 2
    assert "models.a is in another file already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"b{n}: &{c} [{','.join([f'*{p}'] * 10)}]\n"
                                                  for n, (p, c) in enumerate(zip("abcdef", "bcdefg", strict=True))),
        "models: " + "[" * 5000,
        "macros:\n  m0: xxxxxxxxxx\n" + "".join(f"  m{n}: '{f'${{m{n - 1}}}' * 10}'\n" for n in range(1, 12))
        + "models: {a: {cmd: '${m11} ${PORT}'}}\n",
        ONE + "matrix:\n  sets:\n    s: " + " & ".join(["(a | a | a)"] * 5000) + "\n",
    ],
    ids=["aliases", "deep", "macros", "matrix"],
)  # fmt: skip
def test_a_hostile_file_costs_little(here: Path, text: str) -> None:
    assert import_file(here, text) in (0, 2)
