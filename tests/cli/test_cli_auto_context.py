"""`context = "auto"` in every command that shows a context: the same number everywhere, or why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status
from tests.fleet.memory.model_files import llama

from stoker.cli.main import run
from stoker.fleet.memory.devices import Machine
from stoker.fleet.memory.host import HostMemory

Captured = pytest.CaptureFixture[str]
GIB = 2**30
SERVE = """
[front_door]
port = {port}

[paths]
state = "state"

[[serve]]
name = "eight"
model = "eight.gguf"
context = "auto"
parallel = 2
embedded = true
"""
"""Eight billion parameters, trained for 131072 tokens. An embedded engine runs on processors."""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 GiB of main memory, of which little is free; no accelerator."""
    monkeypatch.setattr("stoker.fleet.memory.devices.machine", lambda: Machine(()))
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(32 * GIB, 30 * GIB))


@pytest.fixture
def auto(config: Path, port: int) -> Path:
    config.write_text(SERVE.format(port=port))
    llama(config.parent / "eight.gguf")
    return config


def shown(capsys: Captured) -> int:
    assert run(["config", "show", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["auto_contexts"] == ["eight"]
    context = document["serve"][0]["context"]
    assert isinstance(context, int)
    return context


def test_every_command_shows_the_chosen_context(auto: Path, stoker: FakeStoker, capsys: Captured) -> None:
    context = shown(capsys)
    assert 4096 < context < 131072
    assert run(["config", "check"]) == 0
    capsys.readouterr()
    assert run(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert f"context = {context}\n" in out
    note = f"{context} tokens for each of 2 requests are the most that fit and that its model was trained for"
    assert f"# serve 'eight' has context = \"auto\": {note}" in out
    assert run(["fit", "eight"]) == 0
    assert f"2 x {context} tokens" in capsys.readouterr().out
    stoker.status(serve_status("eight", context=context, auto_context=True))
    assert run(["serves", "status", "eight"]) == 0
    assert f"{context} tokens (auto)" in capsys.readouterr().out
    assert run(["serves", "up", "eight", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f'with context "auto" = {context} tokens)' in out
    assert f" -c {2 * context} " in out
    assert run(["client", "opencode", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["context_ceiling"] == context


def test_the_advice_for_agents_does_not_ask_for_what_is_impossible(
    auto: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def caution() -> str:
        assert run(["client", "claude-code", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["cautions"]
        assert isinstance(found, str)
        return found

    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(16 * GIB, 16 * GIB))
    assert "that is the largest that fits: lower `parallel`, or choose another serve" in caution()
    auto.write_text(auto.read_text().replace('"auto"', "8192"))
    assert "set `context = 57344` if `stoker fit` says that it fits" in caution()
    llama(auto.parent / "eight.gguf", **{"llama.context_length": 8192})
    assert "its model was trained for 8192, so choose another serve with --model" in caution()


def test_what_is_free_just_now_changes_nothing(auto: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shown(capsys)
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(32 * GIB, 1 * GIB))
    assert shown(capsys) == before


def test_too_little_memory_is_a_warning_of_the_check_and_refuses_the_start(
    auto: Path, stoker: FakeStoker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.fleet.memory.host.host_memory", lambda credit=0: HostMemory(4 * GIB, 4 * GIB))
    stoker.status(serve_status("eight", auto_context=True, context_problem="too little memory"))
    assert run(["serves", "status", "eight"]) == 0
    assert "none fits (auto): stoker fit eight" in capsys.readouterr().out
    assert run(["config", "check"]) == 0
    assert "not even 4096 tokens for each of 2 requests fit into main memory: `stoker fit" in capsys.readouterr().err
    assert run(["serves", "up", "eight", "--dry-run"]) == 1
    assert "refuse: serve 'eight' has `context = \"auto\"`, and not even 4096 tokens" in capsys.readouterr().out
    assert run(["fit", "eight"]) == 1


def test_missing_weights_get_their_context_when_they_arrive(auto: Path, stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("eight", auto_context=True))
    assert run(["serves", "status", "eight"]) == 0
    assert "chosen when it starts (auto)" in capsys.readouterr().out
    stoker.status(serve_status("eight", "ready", auto_context=True, facts={"n_ctx": 8192}))
    assert run(["serves", "status", "eight"]) == 0
    assert "8192 tokens (auto)" in capsys.readouterr().out
    (auto.parent / "eight.gguf").unlink()
    assert run(["config", "show"]) == 0
    assert "# serve 'eight' has context = \"auto\": chosen when it starts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        ('engine = "vllm"\nmodel = "/m"', 'leave `context` out, and set `extra_args = ["--max-model-len", "auto"]`'),
        (
            'engine = "sglang"\nmodel = "/m"',
            "for SGLang give a number; with one, `stoker fit other` says whether it fits",
        ),
        ('model = "m.gguf"\ncmd = "llama-server --port {port}"', "give the number that the command gives its engine"),
        ('base_url = "http://127.0.0.1:9/v1"', "its driver is external: give the number that its engine runs with"),
        ('model = "m.gguf"\ndriver = "systemd"\nport = 9', "its driver is systemd: give the number"),
    ],
)
def test_where_it_cannot_be_computed_the_check_says_what_to_write(
    auto: Path, capsys: Captured, keys: str, advice: str
) -> None:
    auto.write_text(f'[[serve]]\nname = "other"\ncontext = "auto"\n{keys}\n')
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert "stoker.toml:3: key 'serve[other].context': \"auto\" is for llama.cpp that Stoker starts" in err
    assert advice in err


@pytest.mark.parametrize("value", ['"Auto"', "0", "1.5", "true", "-1"])
def test_a_context_is_a_number_or_auto(auto: Path, capsys: Captured, value: str) -> None:
    auto.write_text(f'[[serve]]\nname = "other"\nmodel = "m.gguf"\ncontext = {value}\n')
    assert run(["config", "check"]) == 2
    assert "key 'serve[other].context': is not a whole number of at least 1, or \"auto\"" in capsys.readouterr().err
