"""`stoker launch`: an agent gets this Stoker's model in its process alone, and what cannot work is said before."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.machine.ports import free_port
from stoker.cli.main import run
from stoker_setup.clients.agents import AGENTS
from stoker_setup.clients.launching import toml_options
from stoker_setup.commands.launch import agent_names

Captured = pytest.CaptureFixture[str]
SECRET = "marker-secret-value"
NAMES = [client.name for client in AGENTS if client.program is not None]
STATE = '[paths]\nstate = "state"\nlogs = "logs"\n'
PRINTS = """#!/bin/sh
env | grep -E "^(ANTHROPIC|TEAM)"
grep SigIgn /proc/self/status
read children < /proc/$$/task/$$/children
echo "children: $children"
for word in "$@"; do echo "[$word]"; done
read line
echo "$line"
exit 7
"""
STOKER = (sys.executable, "-c", "from stoker.cli.entry import main; main()", "launch", "claude-code")
FILE = f"""
{STATE}
[front_door]
port = 8123
keys = [{{ name = "team", value = "env:TEAM_KEY" }}]

[[serve]]
name = "coder"
base_url = "http://10.0.0.7:30000/v1"
context = 131072
aliases = ["it's/odd"]

[[serve]]
name = "tiny"
base_url = "http://10.0.0.7:30001/v1"
context = 4096
aliases = ["claude-haiku-4-5"]
"""


@pytest.fixture
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEAM_KEY", SECRET)
    path = home / "work" / "stoker.toml"
    path.write_text(FILE)
    return path


def plan(capsys: Captured, *words: str) -> dict[str, Any]:
    assert run(["launch", "--dry-run", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: Captured, *words: str) -> tuple[int, str]:
    code = run(["launch", *words])
    return code, capsys.readouterr().err


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `claude` that prints its words and its variables, reads a line, and ends with 7."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(PRINTS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


def test_without_a_name_agents_are_listed_installed_or_not_with_the_command_that_installs_them(
    agent: Path, capsys: Captured
) -> None:
    assert run(["launch", "--json"]) == 0
    listed = {one["agent"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(listed) == NAMES
    assert (listed["claude-code"]["path"], listed["codex"]["path"]) == (str(agent), None)
    assert listed["codex"]["install"] == "npm install -g @openai/codex"
    assert run(["launch"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert "npm install" not in rows["claude-code"]
    assert rows["codex"].endswith("npm install -g @openai/codex")
    assert agent_names("co") == ["continue", "codex", "copilot"]


@pytest.mark.parametrize("name", NAMES)
def test_each_agent_is_told_the_address_the_model_and_the_key_and_no_file_holds_the_key(
    file: Path, name: str, capsys: Captured
) -> None:
    found = plan(capsys, name, "--model", "coder", "--", "say", "it's")
    assert found["command"][-2:] == ["say", "it's"]
    told = json.dumps(found)
    assert "http://127.0.0.1:8123" in told
    assert "coder" in told
    assert SECRET not in told
    assert found["variables"]["TEAM_KEY"] == "$TEAM_KEY"
    assert all(path.startswith(str(file.parent / "state" / "launch" / f"{name}-")) for path in found["files"])
    assert all(
        any(path in word for word in (*found["command"], *found["variables"].values())) for path in found["files"]
    )
    assert run(["launch", name, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == shlex.join(found["command"][:-2])
    assert SECRET not in said
    assert not (file.parent / "state").exists(), "a dry run writes nothing"


def test_codex_gets_its_file_as_options_and_opencode_as_a_variable(file: Path, capsys: Captured) -> None:
    command = plan(capsys, "codex", "--model", "it's/odd")["command"]
    options = [command[at + 1] for at, word in enumerate(command) if word == "-c"]
    document = tomllib.loads("\n".join(options))
    assert (document["model"], document["model_provider"]) == ("it's/odd", "stoker")
    assert document["model_providers"]["stoker"]["env_key"] == "TEAM_KEY"
    config = json.loads(plan(capsys, "opencode")["variables"]["OPENCODE_CONFIG_CONTENT"])
    assert (config["model"], config["small_model"]) == ("stoker/coder", "stoker/coder")


def test_options_of_a_document_say_what_it_says() -> None:
    text = 'a = "x\\ny"\n[b."c.d"]\ne = true\nf = 1.5\n'
    assert tomllib.loads("\n".join(toml_options(text))) == tomllib.loads(text)


def test_small_requests_go_to_a_small_serve_if_there_is_one(file: Path, capsys: Captured) -> None:
    found = plan(capsys, "claude-code")
    assert found["small_model"] == "tiny"
    assert found["variables"]["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "tiny"
    assert found["variables"]["ANTHROPIC_MODEL"] == "coder"


def test_without_keys_the_agent_gets_one_of_no_meaning(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file.write_text(FILE.replace("keys = ", "# "))
    monkeypatch.delenv("TEAM_KEY")
    assert run(["launch", "claude-code", "--dry-run"]) == 0
    assert "ANTHROPIC_AUTH_TOKEN=$STOKER_KEY" in capsys.readouterr().out


def test_what_cannot_work_is_said_with_the_next_command(
    file: Path, agent: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert refused(capsys, "xyzzy") == (2, "stoker: there is no agent 'xyzzy'; known: " + ", ".join(NAMES) + "\n")
    code, said = refused(capsys, "roo", "--config", str(file))
    assert code == 2
    assert "API Provider: OpenAI Compatible" in proposed(capsys, said, f"stoker client roo --config {file}")
    code, said = refused(capsys, "codex", "--config", str(file))
    assert (code, "npm install -g @openai/codex" in said) == (2, True)
    code, said = refused(capsys, "claude-code", "--model", "codre")
    assert (code, "did you mean 'coder'" in said) == (2, True)
    code, said = refused(capsys, "claude-code", "--model", "tiny", "--config", str(file))
    assert code == 1
    assert "needs a context of 57344 tokens" in said
    line = f"stoker launch claude-code --model tiny --config {file} --anyway"
    assert "ANTHROPIC_MODEL=tiny" in proposed(capsys, said, line, "--dry-run")
    monkeypatch.delenv("TEAM_KEY")
    code, said = refused(capsys, "claude-code")
    assert (code, "$TEAM_KEY is not set: export it" in said) == (2, True)
    file.unlink()
    code, said = refused(capsys, "claude-code")
    assert (code, "stoker init" in said) == (2, True)


def proposed(capsys: Captured, said: str, line: str, *more: str) -> str:
    """What a command prints that was proposed."""
    assert line in said
    code = run([*shlex.split(line)[1:], *more])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out + printed.err


def test_a_model_that_cannot_load_is_not_given_to_an_agent(file: Path, agent: Path, capsys: Captured) -> None:
    state = file.parent / "state"
    state.mkdir(mode=0o700)
    fake = FakeStoker(state / "stoker.sock")
    fake.status(serve_status("coder", cannot_load="its weights are cut off"), frontdoor={"port": 8123, "auth": "keys"})
    try:
        code, said = refused(capsys, "claude-code")
    finally:
        fake.close()
    assert (code, "serve 'coder' cannot load: its weights are cut off" in said) == (1, True)


def test_the_agent_has_the_terminal_its_words_the_key_and_the_exit_code_and_a_stoker_that_ran_goes_on(
    file: Path, agent: Path
) -> None:
    file.write_text(FILE.replace("port = 8123", f"port = {free_port()}"))
    command = [*STOKER, "--", "-p", "two words"]
    environment = os.environ | {"ANTHROPIC_API_KEY": "sk-ant-other"}
    done = subprocess.run(command, cwd=file.parent, env=environment, input="typed\n", capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert f"no Stoker is running with {file}; starting it in the background" in done.stderr
    pid = int(done.stderr.rpartition("kill ")[2].split()[0])
    try:
        lines = done.stdout.splitlines()
        assert f"ANTHROPIC_AUTH_TOKEN={SECRET}" in lines
        assert not any(line.startswith("ANTHROPIC_API_KEY") for line in lines), "it would ask the vendor"
        [ignored] = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn")]
        assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1), "`yes | head` would not end"
        assert lines[-3:] == ["[-p]", "[two words]", "typed"]
        assert "children: " in lines, "an agent that waits for its children would wait for a Stoker"
        os.kill(pid, 0)
        assert (file.parent / "logs" / "up.log").stat().st_size > 0
    finally:
        os.kill(pid, signal.SIGTERM)


def test_two_launches_at_once_name_the_stoker_that_runs_and_keep_one_log(file: Path, agent: Path) -> None:
    file.write_text(FILE.replace("port = 8123", f"port = {free_port()}"))
    logs = file.parent / "logs"
    logs.mkdir()
    (logs / "up.log").write_text("what an earlier one said\n")
    both = [
        subprocess.Popen(STOKER, cwd=file.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    said = [one.communicate()[1] for one in both]
    pids = {int(text.rpartition("kill ")[2].split()[0]) for text in said if "kill " in text}
    try:
        assert [one.returncode for one in both] == [7, 7], said
        [pid] = pids
        os.kill(pid, 0)
        assert (logs / "up.log").read_text().startswith("what an earlier one said\n")
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("claude-code", "ANTHROPIC_API_KEY CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_USE_FOUNDRY"),
        ("aider", "AIDER_OPENAI_API_BASE AIDER_OPENAI_API_KEY OPENAI_BASE_URL"),
        ("mini-swe-agent", "OPENAI_BASE_URL"),
        ("copilot", "COPILOT_PROVIDER_BEARER_TOKEN COPILOT_PROVIDER_WIRE_API"),
        ("goose", "OPENAI_BASE_PATH GOOSE_LEAD_PROVIDER GOOSE_PLANNER_PROVIDER"),
    ],
)
def test_no_variable_of_the_shell_leads_an_agent_to_another_provider(
    name: str, variables: str, file: Path, capsys: Captured
) -> None:
    assert set(variables.split()) <= set(plan(capsys, name)["unset"])


def test_an_agents_file_is_private_and_untouched_if_it_is_there_and_old_ones_go(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    program = tmp_path / "bin" / "aider"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    started: list[str] = []
    monkeypatch.setattr("stoker_setup.commands.launch._ensure_running", lambda installation: None)
    monkeypatch.setattr("stoker_setup.commands.launch._become", lambda program, plan: started.append(program))
    folder = file.parent / "state" / "launch"
    folder.mkdir(parents=True)
    old = folder / "aider-0.yml"
    old.write_text("")
    os.utime(old, (0, 0))
    assert run(["launch", "aider"]) == 0
    names = {path: path.stat().st_ino for path in folder.iterdir()}
    assert len(names) == 2
    assert old not in names
    assert {path.stat().st_mode & 0o777 for path in names} == {0o600}
    first, second = names
    second.write_text("cut o")
    assert run(["launch", "aider"]) == 0
    assert first.stat().st_ino == names[first], "an agent may be reading it"
    assert second.read_text() != "cut o"
    for path in names:
        path.unlink()
        path.mkdir()
    capsys.readouterr()
    assert run(["launch", "aider"]) == 1
    assert f"cannot write {folder}" in capsys.readouterr().err
    assert len(started) == 2


def test_a_stoker_that_does_not_start_says_why_and_no_agent_is_started(file: Path, agent: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(FILE.replace("port = 8123", f"port = {port}"))
        done = subprocess.run(STOKER, cwd=file.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Stoker did not start" in done.stderr
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr
