"""`stoker client`: settings to paste, each in its own format, with no secret in them and nothing that is not known."""

from __future__ import annotations

import json
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.main import run
from stoker_setup.clients.agents import AGENTS
from stoker_setup.clients.all_clients import CLIENTS
from stoker_setup.clients.client_types import Client
from stoker_setup.clients.facts import budgets
from stoker_setup.clients.needs import needed_context
from stoker_setup.commands.client import client_names

Captured = pytest.CaptureFixture[str]
SECRET = "marker-secret-value"
NAMES = list(CLIENTS)
FULL = """
[front_door]
port = 8123
prefixes = ["/llm"]
allowed_hosts = ["app.example"]
keys = [{ name = "team", value = "env:TEAM_KEY" }, { name = "other", value = "env:OTHER_KEY" }]

[[serve]]
name = "vectors"
base_url = "http://10.0.0.7:30000/v1"
dialects = ["embeddings"]

[[serve]]
name = "old"
base_url = "http://10.0.0.7:30000/v1"
status = "research"

[[serve]]
name = "coder"
model = "coder.gguf"
context = 131072
aliases = ["it's/odd"]
modalities = ["text", "image"]
sampling = { temperature = 0.6 }
"""
BARE = """
[[serve]]
name = "plain"
base_url = "http://10.0.0.7:30000/v1"
"""


@pytest.fixture
def full(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keys, a prefix, images, a temperature, and a name that wants quoting."""
    for name in ("TEAM_KEY", "OTHER_KEY"):
        monkeypatch.setenv(name, f"{SECRET}-{name}")
    path = home / "work" / "stoker.toml"
    path.with_name("coder.gguf").write_bytes(b"GGUF" + bytes(20))
    path.write_text(FULL)
    return path


ROUTED = """
[router]
cloud_classes = ["planning"]

[alias]
planner = "auto:planning"
"team/any" = "auto"

[[serve]]
name = "small"
base_url = "http://10.0.0.7:30000/v1"
context = 32768
dialects = ["chat"]
modalities = ["text", "image"]

[[serve]]
name = "large"
base_url = "http://10.0.0.7:30001/v1"
context = 131072
dialects = ["chat", "messages"]

[[serve]]
name = "far"
base_url = "http://10.0.0.7:30002/v1"
context = 8192
dialects = ["chat"]

[[tier]]
name = "small"
serve = "small"
classes = ["chat"]

[[tier]]
name = "large"
serve = "large"
"""


@pytest.fixture
def routed(home: Path) -> Path:
    """Two tiers, one of them for `chat` only, and a serve that is no tier."""
    path = home / "work" / "stoker.toml"
    path.write_text(ROUTED)
    return path


@pytest.fixture
def bare(home: Path) -> Path:
    """One serve of which nothing is known, and no keys."""
    path = home / "work" / "stoker.toml"
    path.write_text(BARE)
    return path


def document(capsys: Captured, *words: str) -> dict[str, Any]:
    assert run(["client", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def text(capsys: Captured, *words: str) -> str:
    assert run(["client", *words]) == 0
    return capsys.readouterr().out


def parsed(block: dict[str, str]) -> Any:
    """A block through its own format's parser; lines for formats without one here."""
    match block["format"]:
        case "json":
            return json.loads(block["text"])
        case "toml":
            return tomllib.loads(block["text"])
        case "python":
            return compile(block["text"], block["where"], "exec")
        case "shell":
            done = subprocess.run(["sh", "-n"], input=block["text"], text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
            return block["text"].splitlines()
    return [(line.partition(":")[0].strip(" -"), line.partition(":")[2].strip()) for line in block["text"].splitlines()]


def block(found: dict[str, Any], format: str) -> Any:
    return parsed(next(b for b in found["blocks"] if b["format"] == format))


def after(shell: str, *variables: str, **given: str) -> list[str]:
    """The values of variables once a shell has evaluated the text."""
    script = f"{shell}\nfor v in {' '.join(variables)}; do eval printf '%s\\\\n' \\\"\\$$v\\\"; done"
    done = subprocess.run(["sh", "-euc", script], env=given, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_without_a_name_the_known_clients_are_listed_and_no_configuration_is_needed(capsys: Captured) -> None:
    lines = text(capsys).splitlines()
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert run(["client", "--json"]) == 0
    assert [c["client"] for c in json.loads(capsys.readouterr().out)] == NAMES
    assert client_names("ope") == ["opencode", "openai-python"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("words", [(), ("--model", "it's/odd", "--base-url", "https://app.example/llm/v1/")])
def test_every_block_parses_and_says_where_and_what(
    full: Path, name: str, words: tuple[str, ...], capsys: Captured
) -> None:
    found = document(capsys, name, *words)
    root = "https://app.example/llm" if words else "http://127.0.0.1:8123"
    assert found["base_url"] == (root if CLIENTS[name].at_root else f"{root}/v1")
    assert found["model"] == ("it's/odd" if words and not CLIENTS[name].plain_names else "coder")
    assert (found["context_ceiling"], found["client_context"], found["max_output"]) == (131072, 98304, 32768)
    assert (found["key_variable"], found["key_needed"], found["images"]) == ("TEAM_KEY", True, True)
    assert found["cautions"] == []
    for each in found["blocks"]:
        assert parsed(each)
        assert "None" not in each["text"]
    everything = "\n".join(each["text"] for each in found["blocks"])
    assert root in everything
    assert "TEAM_KEY" in everything
    said = text(capsys, name, *words)
    assert all(each["text"] in said for each in found["blocks"])
    for expected in (root, found["model"], "131072", "98304", "32768", "$TEAM_KEY"):
        assert expected in said
    assert SECRET not in said + json.dumps(found)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_known_is_left_out_and_a_key_that_nobody_asks_for_has_no_meaning(
    bare: Path, name: str, capsys: Captured
) -> None:
    found = document(capsys, name)
    assert (found["context_ceiling"], found["client_context"], found["window_setting"]) == (None, None, None)
    assert (found["max_output"], found["key_needed"], found["images"]) == (4096, False, False)
    for each in found["blocks"]:
        assert parsed(each)
        assert "None" not in each["text"]
        assert "null" not in each["text"]
    if name != "roo":  # it has fields alone
        shell = next(b["text"] for b in found["blocks"] if b["format"] == "shell").splitlines()[0]
        assert after(shell, "STOKER_KEY") == ["none"]
        assert after(shell, "STOKER_KEY", STOKER_KEY="mine") == ["mine"]
    assert "unknown: give the serve a `context`" in text(capsys, name)


def test_a_window_is_the_ceiling_where_the_client_takes_the_reply_off_and_else_the_recommended_context(
    full: Path, capsys: Captured
) -> None:
    assert ("Context Window Size", "131072") in block(document(capsys, "roo"), "form")
    assert ("Context Window Size", "98304") in block(document(capsys, "cline"), "form")
    [aider] = block(document(capsys, "aider"), "json").values()
    assert (aider["max_input_tokens"], aider["max_output_tokens"]) == (98304, 32768)
    codex = block(document(capsys, "codex"), "toml")
    assert (codex["model_context_window"], codex["model_auto_compact_token_limit"]) == (131072, 98304)
    assert codex["model_providers"]["stoker"] == {
        "name": "Stoker", "base_url": "http://127.0.0.1:8123/v1", "env_key": "TEAM_KEY", "wire_api": "responses",
    }  # fmt: skip
    opencode = block(document(capsys, "opencode"), "json")
    model = opencode["provider"]["stoker"]["models"]["coder"]
    assert model["limit"] == {"context": 131072, "output": 32768}
    assert model["modalities"]["input"] == ["text", "image"]
    assert opencode["provider"]["stoker"]["options"]["apiKey"] == "{env:TEAM_KEY}"
    assert ("contextLength", "131072") in block(document(capsys, "continue"), "yaml")
    qwen = block(document(capsys, "qwen-code"), "json")["modelProviders"]["openai"][0]["generationConfig"]
    assert (qwen["contextWindowSize"], qwen["samplingParams"]) == (131072, {"temperature": 0.6, "max_tokens": 32768})


def test_claude_code_gets_the_root_a_plain_name_and_a_percentage_of_what_it_takes_for_granted(
    full: Path, capsys: Captured
) -> None:
    lines = block(document(capsys, "claude-code", "--model", "it's/odd"), "shell")
    assert lines[-1] == "claude"
    wanted = ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL", "CLAUDE_CODE_MAX_OUTPUT_TOKENS")
    shell = "\n".join(lines[:-1])
    assert after(shell, *wanted, TEAM_KEY="k") == ["http://127.0.0.1:8123", "k", "coder", "32768"]
    [percent] = after(shell, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", TEAM_KEY="k")
    assert int(percent) * 180_000 // 100 <= 98304 < (int(percent) + 1) * 180_000 // 100
    full.write_text(FULL.replace("context = 131072", "context = 262144"))
    assert "PCT_OVERRIDE" not in text(capsys, "claude-code")  # it makes room in time by itself


def test_env_is_what_a_shell_can_evaluate_under_the_usual_and_the_older_names(full: Path, capsys: Captured) -> None:
    printed = text(capsys, "env", "--model", "it's/odd", "--base-url", "https://app.example/llm")
    root = "https://app.example/llm"
    values = {
        "OPENAI_BASE_URL": f"{root}/v1", "OPENAI_API_KEY": "k ey", "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": "k ey", "OLLAMA_HOST": root, "LLM_MODEL": "it's/odd", "LLM_BASE_URL": f"{root}/v1",
        "SGLANG_BASE_URL": f"{root}/v1", "SGLANG_CHAT_URL": f"{root}/v1/chat/completions",
        "SGLANG_MODELS_URL": f"{root}/v1/models", "SGLANG_MODEL": "it's/odd", "SGLANG_API_TOKEN": "k ey",
    }  # fmt: skip
    assert after(f"eval {shlex.quote(printed)}", *values, TEAM_KEY="k ey") == list(values.values())


def test_temperature_is_the_serves_own_else_zero_for_code_and_nothing_for_others(full: Path, capsys: Captured) -> None:
    assert document(capsys, "aider")["temperature"] == 0.6
    assert ("use_temperature", "0.6") in block(document(capsys, "aider"), "yaml")
    assert document(capsys, "claude-code")["temperature"] is None  # it sends its own
    full.write_text(FULL.replace("sampling = ", "env = {}\n#"))
    assert document(capsys, "aider")["temperature"] == 0
    assert document(capsys, "curl")["temperature"] is None
    assert "temperature" not in document(capsys, "curl")["blocks"][0]["text"]


def test_the_first_production_serve_that_converses_is_meant_and_any_name_of_a_serve_is_understood(
    full: Path, capsys: Captured
) -> None:
    assert document(capsys, "curl")["serve"] == "coder"
    assert document(capsys, "curl", "--model", "old")["model"] == "old"
    assert document(capsys, "codex")["translated"] is False
    assert document(capsys, "codex", "--model", "old")["translated"] is True
    assert "dialect responses (translated for this serve)" in text(capsys, "codex", "--model", "old")


def test_a_client_of_the_responses_api_is_told_that_none_are_stored(full: Path, capsys: Captured) -> None:
    assert document(capsys, "codex")["stores_responses"] is False
    said = text(capsys, "codex")
    assert "`previous_response_id` and `conversation` are refused" in said
    assert "[responses] store = true" in said
    assert "previous_response_id" not in text(capsys, "curl")
    full.write_text(FULL + "\n[responses]\nstore = true\n")
    assert document(capsys, "codex")["stores_responses"] is True
    assert "are refused" not in text(capsys, "codex")


def test_the_key_variable_can_be_named_and_a_files_key_gets_the_usual_one(full: Path, capsys: Captured) -> None:
    assert 'export OPENAI_API_KEY="$MINE"' in text(capsys, "env", "--key-env", "MINE")
    (full.parent / "key").write_text(SECRET)
    full.write_text(FULL.replace("env:TEAM_KEY", "file:key"))
    printed = text(capsys, "env")
    assert "the value of $STOKER_KEY, which is file:key of the configuration" in printed
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clod-code"], "did you mean 'claude-code'? known: roo, claude-code"),
        (["curl", "--model", "codre"], "did you mean 'coder'? known: vectors, old, coder, it's/odd"),
        (["curl", "--model", "xyzzy"], "; known: vectors, old, coder, it's/odd"),
        (["curl", "--base-url", "app.example"], "http(s)://HOST"),
        (["curl", "--base-url", "https://app.example:x"], "http(s)://HOST"),
        (["curl", "--base-url", "https://app.example/$(id) "], "http(s)://HOST"),
        (["curl", "--base-url", f"https://me:{SECRET}@app.example"], "leave out user, password"),
        (["curl", "--key-env", f"sk-{SECRET}"], "the name of a variable"),
    ],
)
def test_what_cannot_be_is_said_with_what_can(full: Path, words: list[str], said: str, capsys: Captured) -> None:
    assert run(["client", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert SECRET not in captured.err


def test_without_a_configuration_or_a_production_serve_the_next_command_is_told(
    home: Path, bare: Path, capsys: Captured
) -> None:
    bare.write_text(BARE + 'status = "research"\n')
    assert run(["client", "curl"]) == 2
    assert "choose one with --model: plain" in capsys.readouterr().err
    bare.unlink()
    assert run(["client", "curl"]) == 2
    assert "stoker init" in capsys.readouterr().err


LISTED = [
    {"id": "spark", "context_length": 2048, "stoker": {"serve": "spark", "dialects": ["chat"], "modalities": ["text"]}},
    {"id": "gpt-4o", "context_length": 2048, "stoker": {"serve": "spark", "dialects": ["chat"]}},
    {"id": "auto", "context_length": None, "stoker": {"serve": None, "state": "routed"}},
]


@contextmanager
def running_elsewhere(state: Path, configuration: Path | None = None, **door: Any) -> Iterator[FakeStoker]:
    """A Stoker that runs on another folder's file, or on one that is not to be had here: GET /status and the models."""
    state.mkdir(parents=True, mode=0o700, exist_ok=True)
    (state / "lock").write_text(f"1\n{configuration or ''}\n")
    fake = FakeStoker(state / "stoker.sock")
    fake.status(serve_status("spark", context=2048), frontdoor={"port": 8999, "auth": "none"} | door)
    fake.answer("GET /v1/models", {"data": LISTED})
    try:
        yield fake
    finally:
        fake.close()


@pytest.fixture
def own_state(home: Path) -> Path:
    return home / ".local" / "state" / "stoker"


@pytest.mark.parametrize("where", ["", "demo"])
def test_without_a_file_the_models_are_those_of_the_stoker_that_runs(
    own_state: Path, where: str, capsys: Captured
) -> None:
    with running_elsewhere(own_state / where):
        found = document(capsys, "curl")
        assert document(capsys, "curl", "--model", "gpt-4o")["serve"] == "spark"
        assert run(["client", "curl", "--model", "ember"]) == 2
        assert "in the running Stoker; known: spark, gpt-4o, auto" in capsys.readouterr().err
        assert run(["client", "curl", "--model", "auto"]) == 2
        assert "--config FILE" in capsys.readouterr().err
    assert (found["base_url"], found["model"], found["client_context"]) == ("http://127.0.0.1:8999/v1", "spark", 1536)
    assert not found["key_needed"]


def test_in_any_folder_the_file_of_the_stoker_that_runs_counts(
    own_state: Path, full: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir("/")
    with running_elsewhere(own_state, full, port=8124, auth="keys") as fake:
        fake.status(serve_status("coder"), frontdoor={"port": 8124, "auth": "keys"})
        found = document(capsys, "curl")
    assert (found["base_url"], found["model"]) == ("http://127.0.0.1:8124/v1", "coder")
    assert (found["key_variable"], found["key_needed"]) == ("TEAM_KEY", True)


def test_a_model_that_the_running_stoker_has_not_read_yet_is_pointed_out(
    own_state: Path, full: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir("/")
    with running_elsewhere(own_state, full):
        assert run(["client", "curl"]) == 0
        assert "the running Stoker has no serve 'coder' yet: stoker reload" in capsys.readouterr().err


def test_a_serve_that_cannot_load_is_pointed_out(
    own_state: Path, full: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir("/")
    with running_elsewhere(own_state, full) as fake:
        fake.status(serve_status("coder", cannot_load="its weights are cut off"))
        assert run(["client", "curl"]) == 0
    assert "serve 'coder' cannot load: its weights are cut off; another one: --model" in capsys.readouterr().err


def test_where_none_runs_and_no_file_is_found_nothing_is_guessed(own_state: Path, capsys: Captured) -> None:
    (own_state / "demo").mkdir(parents=True, mode=0o700)
    (own_state / "demo" / "lock").touch()  # a demo of yesterday
    assert run(["client", "curl"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "stoker up --demo" in said.err
    assert "--config FILE" in said.err


def test_the_port_and_the_keys_of_the_stoker_that_runs_count(own_state: Path, capsys: Captured) -> None:
    """`--port` is not in the file, nor are keys that were made since."""
    with running_elsewhere(own_state / "demo", port=8998, auth="keys"):
        found = document(capsys, "curl", "--state", str(own_state / "demo"))
    assert found["base_url"] == "http://127.0.0.1:8998/v1"
    assert found["key_needed"]


@pytest.mark.parametrize(
    ("host", "root"),
    [("0.0.0.0", "http://127.0.0.1:8123"), ("::", "http://[::1]:8123"), ("10.0.0.5", "http://10.0.0.5:8123")],
)
def test_a_wildcard_address_is_reached_over_loopback(full: Path, host: str, root: str, capsys: Captured) -> None:
    full.write_text(FULL.replace("port = 8123", f'port = 8123\nhost = "{host}"'))
    found = document(capsys, "anthropic-python")
    assert (found["base_url"], found["cautions"]) == (root, [])


def test_an_address_that_the_front_door_does_not_know_is_said_beside_the_settings(full: Path, capsys: Captured) -> None:
    assert run(["client", "curl", "--base-url", "https://other.example/api"]) == 0
    captured = capsys.readouterr()
    assert "front_door.allowed_hosts does not have 'other.example'" in captured.err
    assert "front_door.prefixes does not have '/api'" in captured.err
    assert "front_door" not in captured.out


def test_a_context_that_the_clients_own_instructions_fill_is_said(full: Path, capsys: Captured) -> None:
    full.write_text(FULL.replace("context = 131072", "context = 16384"))
    assert run(["client", "claude-code"]) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "stoker: Claude Code needs a context of 57344 tokens (it sends about 20000 tokens of its own with each "
        "request), and serve 'coder' has 16384: set `context = 57344` if `stoker fit` says that it fits, or choose "
        "another serve with --model\n"
    )
    assert "Claude Code needs" not in captured.out
    assert document(capsys, "aider")["cautions"] == []
    (caution,) = document(capsys, "roo")["cautions"]
    assert "32768 tokens (so says its documentation), and serve 'coder' has 16384" in caution


@pytest.mark.parametrize("client", [client for client in CLIENTS.values() if needed_context(client)])
def test_each_agent_is_warned_exactly_below_what_it_needs(full: Path, client: Client, capsys: Captured) -> None:
    needed = needed_context(client)
    assert needed is not None
    for context, warnings in ((needed, 0), (needed - 1, 1)):
        full.write_text(FULL.replace("context = 131072", f"context = {context}"))
        found = document(capsys, client.name)
        assert (found["context_needed"], len(found["cautions"])) == (needed, warnings)


def test_the_context_that_is_needed_leaves_room_to_work() -> None:
    for client in CLIENTS.values():
        needed = needed_context(client)
        if client.own_prompt is not None and needed is not None:
            assert (budgets(needed)[0] or 0) >= 2 * client.own_prompt
    assert all(needed_context(client) for client in AGENTS), "no agent without a figure"


def test_the_recommended_context_and_a_reply_are_never_more_than_the_ceiling() -> None:
    assert budgets(None) == (None, 4096)
    assert budgets(2048) == (1536, 512)
    assert budgets(32768) == (24576, 8192)
    assert budgets(40_000) == (29_696, 10_000)
    assert budgets(262_144) == (229_376, 32_768)
    for ceiling in (*range(2, 5000), 10**6 + 7):
        context, output = budgets(ceiling)
        assert context is not None
        assert 0 < context <= ceiling - output
        assert output > 0
        assert ceiling < 4096 or context % 1024 == 0


def test_the_page_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_KEY", SECRET)
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "clients_page.py"))
    made = script["page"]()
    assert made == script["PAGE"].read_text(encoding="utf-8"), "run: python scripts/clients_page.py"
    assert SECRET not in made


@pytest.mark.parametrize(
    ("name", "ceiling", "modalities", "translated"),
    [
        ("auto", 32768, ["text"], True),
        ("team/any", 32768, ["text"], True),
        ("auto:chat", 32768, ["text"], True),
        ("auto:planning", 131072, ["text"], False),
        ("planner", 131072, ["text"], False),
    ],
)
def test_a_name_that_asks_for_a_choice_is_told_what_every_tier_of_its_class_holds_to(
    routed: Path, capsys: Captured, name: str, ceiling: int, modalities: list[str], translated: bool
) -> None:
    found = document(capsys, "claude-code", "--model", name)
    assert (found["serve"], found["context_ceiling"], found["modalities"]) == (None, ceiling, modalities)
    assert found["translated"] is translated
    assert f"# model        {found['model']}\n" in spoken(capsys, "claude-code", "--model", name)


def test_a_client_that_wants_plain_names_is_told_the_plain_one_of_a_task(routed: Path, capsys: Captured) -> None:
    [plain, *_] = [name for name, client in CLIENTS.items() if client.plain_names]
    assert document(capsys, plain, "--model", "team/any")["model"] == "auto"
    assert document(capsys, plain, "--model", "planner")["model"] == "planner"


def test_names_that_ask_for_a_choice_are_among_those_that_are_known(routed: Path, capsys: Captured) -> None:
    assert run(["client", "curl", "--model", "plannr"]) == 2
    said = capsys.readouterr().err
    assert "did you mean 'planner'?" in said
    assert "auto, planner, team/any" in said
    assert run(["client", "curl", "--model", "auto:nothing"]) == 2


def test_without_tiers_nothing_asks_for_a_choice(bare: Path, capsys: Captured) -> None:
    assert run(["client", "curl", "--model", "auto"]) == 2
    assert "there is no model 'auto'" in capsys.readouterr().err


def spoken(capsys: Captured, *words: str) -> str:
    assert run(["client", *words]) == 0
    return capsys.readouterr().out


TWO_SLOTS = """
[slots.gpu0]
[slots.gpu1]
[[serve]]
name = "coder"
engine = "vllm"
model = "some/coder"
slot = "gpu0"
context = 131072
[[serve]]
name = "small"
engine = "vllm"
model = "some/small"
slot = "gpu1"
context = 32768
"""
TIERS = """
[[tier]]
name = "small"
serve = "small"
[[tier]]
name = "coder"
serve = "coder"
"""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (TWO_SLOTS, "coder"),
        (TWO_SLOTS + TIERS, "small"),
        ((TWO_SLOTS + TIERS).replace('"gpu1"', '"gpu0"'), "coder"),
        (TWO_SLOTS.replace('name = "small"', 'name = "small"\naliases = ["claude-*haiku*"]'), "small"),
    ],
    ids=["no tiers", "the cheapest tier", "a tier that would be swapped in", "the serve with the vendor's name"],
)
def test_the_small_model_of_an_agent_is_one_that_exists_and_swaps_nothing_out(
    bare: Path, capsys: Captured, config: str, expected: str
) -> None:
    bare.write_text(config)
    lines = block(document(capsys, "claude-code", "--model", "coder"), "shell")
    shell = "\n".join(lines[:-1])
    small = ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
    assert after(shell, *small, "ANTHROPIC_DEFAULT_SONNET_MODEL") == [expected, expected, "coder"]


def test_an_agent_with_settings_for_each_model_gets_those_of_its_small_model(bare: Path, capsys: Captured) -> None:
    bare.write_text(TWO_SLOTS + TIERS)
    opencode = block(document(capsys, "opencode", "--model", "coder"), "json")
    assert (opencode["model"], opencode["small_model"]) == ("stoker/coder", "stoker/small")
    limits = {name: model["limit"]["context"] for name, model in opencode["provider"]["stoker"]["models"].items()}
    assert limits == {"coder": 131072, "small": 32768}
    aider = document(capsys, "aider", "--model", "coder")
    assert set(block(aider, "json")) == {"openai/coder", "openai/small"}
    assert "aider --model openai/coder --weak-model openai/small" in block(aider, "shell")
    assert document(capsys, "codex", "--model", "coder")["small_model"] is None


def test_a_name_that_only_a_pattern_matches_can_be_used(bare: Path, capsys: Captured) -> None:
    bare.write_text(TWO_SLOTS.replace('name = "small"', 'name = "small"\naliases = ["gpt-*mini"]'))
    found = document(capsys, "curl", "--model", "gpt-5-mini")
    assert (found["serve"], found["model"]) == ("small", "gpt-5-mini")


@pytest.mark.parametrize(("name", "context"), [("mine", 131072), ("either", 32768), ("coder: thinking", 131072)])
def test_a_client_is_pointed_at_an_alias_or_a_variant(bare: Path, capsys: Captured, name: str, context: int) -> None:
    config = TWO_SLOTS.replace('name = "coder"', 'name = "coder"\nvariant = [{ name = "coder: thinking" }]')
    bare.write_text(f'{config}\n[alias.mine]\nserve = "coder"\n[alias.either]\nserves = ["small", "coder"]\n')
    found = document(capsys, "opencode", "--model", name)
    assert (found["model"], found["context_ceiling"]) == (name, context)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5 takes no effort and no adaptive thinking"),
        ("claude-opus-4-5", "claude-opus-4-5 takes the efforts low, medium, high"),
        ("gpt-5.1", "gpt-5.1 takes the efforts none, low, medium, high"),
        ("gpt-4o", "gpt-4o does not think"),
        ("claude-of-tomorrow", ""),
    ],
)
def test_an_agents_user_is_told_which_efforts_a_vendors_model_takes(
    home: Path, capsys: Captured, model: str, told: str
) -> None:
    cloud = f'[[serve]]\nname = "c"\nbase_url = "https://api.example.com/v1"\nserved_name = "{model}"\n'
    (home / "stoker.toml").write_text(cloud)
    assert run(["client", "claude-code", "-c", str(home / "stoker.toml")]) == 0
    shown = capsys.readouterr().err
    assert told in shown
    assert ("effort" in shown) == bool(told)
