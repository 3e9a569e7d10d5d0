"""`up`, `up --demo` and `serves experiment`: what the program is run with, and what stops it before that."""

from __future__ import annotations

import contextlib
import re
import socket
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake_stoker import FakeStoker, status

from stoker.cli.commands import read_again
from stoker.cli.machine import discover
from stoker.cli.machine.discover import Gpu
from stoker.cli.main import run
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker.domain.serve import Status
from stoker.store.state_dir import StateDir

Captured = pytest.CaptureFixture[str]


@dataclass
class Ran:
    """What `stoker.app.run.run` was called with."""

    settings: Settings
    leave_running: bool
    announce: Callable[[str], None]
    read: Callable[[Settings], tuple[Settings, list[str]]] | None
    force: frozenset[str]
    resume: bool = False
    replace: bool = False
    self_check: Callable[[Settings], object] | None = None
    welcome: Callable[[bool], str] = lambda needs_key: ""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """Stands in for `stoker.app.run`: it listens, and ends with code 0."""
    calls: list[Ran] = []

    def run_app(settings: Settings, **given: Any) -> int:
        calls.append(Ran(settings, **given))
        given["announce"](f"listening on http://127.0.0.1:{settings.front_door.port}")
        given["announce"](given["welcome"](False))
        return int(app.code)

    app = types.ModuleType("stoker.app.run")
    app.run = run_app  # type: ignore[attr-defined]
    app.code = 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stoker.app.run", app)
    return calls


@pytest.fixture
def busy(port: int) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", port)):
        yield port


def test_up_runs_what_the_configuration_says(config: Path, port: int, ran: list[Ran], capsys: Captured) -> None:
    assert run(["up", "--leave-running", "--force", "odd"]) == 0
    (call,) = ran
    assert [s.name for s in call.settings.serves] == ["fast", "slow", "odd"]
    assert (call.settings.front_door.port, call.leave_running, call.force) == (port, True, frozenset(["odd"]))
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"listening on http://127.0.0.1:{port}",
        "models: fast, slow, odd",
        f"clients: base URL http://127.0.0.1:{port}/v1; all settings: stoker client NAME",
        f"web page: http://127.0.0.1:{port}/ui/",
    ]
    assert "warning: serve 'odd': env.SERVICE_TOKEN" in captured.err
    assert "marker-secret" not in captured.out + captured.err


def test_a_port_on_the_command_line_survives_a_reload(config: Path, ran: list[Ran]) -> None:
    assert run(["up", "--port", "18123"]) == 0
    assert ran[0].settings.front_door.port == 18123
    config.write_text(config.read_text().replace('"slow"', '"slower"'))
    assert ran[0].read is not None
    fresh, changed = ran[0].read(ran[0].settings)
    assert fresh.front_door.port == 18123
    assert fresh.serves[1].name == "slower"
    assert changed == ["slots.gpu0.baseline", "serve[slow]", "serve[slower]"]
    config.write_text("nonsense = 1")
    with pytest.raises(ConfigError, match="nonsense"):
        ran[0].read(ran[0].settings)


def test_a_reload_says_what_config_check_warns_of(config: Path, ran: list[Ran]) -> None:
    assert run(["up"]) == 0
    text = config.read_text().replace('model = "fast.gguf"', 'model = "fast.gguf"\ncontext = 131073')
    config.write_text(text)
    line = text.splitlines().index("context = 131073") + 1
    assert ran[0].read is not None
    fresh, _ = ran[0].read(ran[0].settings)
    assert any(
        f":{line}: key 'serve[fast].context': 131073 is above the 131072 tokens" in one for one in fresh.warnings
    )


def test_a_state_directory_on_the_command_line_survives_a_reload(config: Path, home: Path, ran: list[Ran]) -> None:
    assert run(["up", "--state", str(home / "other")]) == 0
    paths = ran[0].settings.paths
    assert (paths.state, paths.logs) == (str(home / "other"), str(home / "other" / "logs"))
    assert ran[0].read is not None
    fresh, changed = ran[0].read(ran[0].settings)
    assert (fresh.paths, changed) == (paths, [])


def test_logs_that_the_file_places_stay_there(config: Path, home: Path, ran: list[Ran]) -> None:
    config.write_text(config.read_text().replace('state = "state"', f'state = "state"\nlogs = "{home}/journal"'))
    assert run(["up", "--state", "beside"]) == 0
    assert (ran[0].settings.paths.state, ran[0].settings.paths.logs) == (
        str(home / "work" / "beside"), f"{home}/journal",
    )  # fmt: skip


def test_a_demo_may_run_beside_another_with_a_state_of_its_own(home: Path, ran: list[Ran]) -> None:
    assert run(["up", "--demo", "--state", str(home / "mine"), "--port", "18123"]) == 0
    assert ran[0].settings.paths.state == str(home / "mine")


def test_what_takes_seconds_is_said_before(config: Path, ran: list[Ran], capsys: Captured) -> None:
    assert run(["up"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"reading {config}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("false",), "no process could read it"),
        (("nowhere/python",), "no process could read it"),
        (("echo", "hello"), "no process could read it"),
        (("sleep", "600"), "could not be read within 0.1 s"),
    ],
)
def test_a_reload_whose_configuration_nobody_could_read_says_so(
    command: tuple[str, ...], told: str, config: Path, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["up"]) == 0
    monkeypatch.setattr(read_again, "COMMAND", command)
    monkeypatch.setattr(read_again, "LONGEST", 0.1)
    assert ran[0].read is not None
    with pytest.raises(ConfigError, match=told):
        ran[0].read(ran[0].settings)


def test_a_reload_reads_nothing_with_another_version_than_the_one_that_runs(
    config: Path, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["up"]) == 0
    monkeypatch.setattr(read_again, "__version__", "0.0.1")
    assert ran[0].read is not None
    with pytest.raises(ConfigError, match=r"is installed, but 0\.0\.1 runs: `stoker up --replace` takes over"):
        ran[0].read(ran[0].settings)


def test_every_problem_of_the_configuration_is_told_and_nothing_runs(
    config: Path, ran: list[Ran], capsys: Captured
) -> None:
    config.write_text(config.read_text().replace("baseline", "baselin").replace("aliases", "alias"))
    assert run(["up"]) == 2
    _, *lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("stoker: stoker.toml:") for line in lines)
    assert ran == []


def test_a_port_that_is_taken_is_named_with_the_way_out(
    config: Path, ran: list[Ran], busy: int, capsys: Captured
) -> None:
    assert run(["up"]) == 1
    told = capsys.readouterr().err
    assert f"port {busy} on 127.0.0.1 is in use by " in told
    assert re.search(r"stoker up --port \d+", told)
    assert "--replace" not in told, "whoever holds it, no Stoker runs on this state directory"
    assert ran == []


def test_the_port_that_is_proposed_is_free(config: Path, ran: list[Ran], busy: int, capsys: Captured) -> None:
    following = busy % 65535 + 1
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", following)):
        assert run(["up"]) == 1
        assert f"--port {following}" not in capsys.readouterr().err


def test_an_address_of_another_machine_is_told(config: Path, ran: list[Ran], capsys: Captured) -> None:
    config.write_text(config.read_text().replace("[front_door]", '[front_door]\nhost = "192.0.2.1"\nauth = "none"'))
    assert run(["up"]) == 1
    assert "cannot listen on 192.0.2.1" in capsys.readouterr().err
    assert ran == []


def test_a_forced_serve_must_exist(config: Path, ran: list[Ran], capsys: Captured) -> None:
    assert run(["up", "--force", "od"]) == 2
    assert "did you mean 'odd'?" in capsys.readouterr().err
    assert ran == []


def test_the_demo_announces_its_address_models_and_examples(
    home: Path, port: int, ran: list[Ran], capsys: Captured
) -> None:
    assert run(["up", "--demo", "--port", str(port)]) == 0
    (call,) = ran
    assert call.read is None
    assert call.settings.paths.state == str(home / ".local" / "state" / "stoker" / "demo")
    out = capsys.readouterr().out
    assert out.startswith(f"listening on http://127.0.0.1:{port}\n")
    for word in (
        f"http://127.0.0.1:{port}/v1",
        f"http://127.0.0.1:{port}/ui/",
        "spark",
        "ember",
        "curl ",
        "OpenAI(",
        "Anthropic(",
    ):
        assert word in out
    assert out.count("curl ") == 1


def test_the_examples_of_the_demo_are_valid_python(port: int) -> None:
    import ast

    from stoker.cli.commands import demo_screen
    from stoker.config.demo import demo as settings

    for needs_key in (False, True):
        screen = demo_screen.screen(settings(Path("/s"), port), needs_key)
        for package in ("openai", "anthropic"):
            start = screen.index(f"from {package} import")
            code = screen[start : screen.index("\n\n", start)]
            ast.parse(code)
            assert ('os.environ["STOKER_KEY"]' in code, '"none"' in code) == (needs_key, not needs_key)


def test_where_keys_were_made_the_examples_of_the_demo_read_one_from_the_environment(port: int) -> None:
    from stoker.cli.commands import demo_screen
    from stoker.config.demo import demo as settings

    keyless, screen = (demo_screen.screen(settings(Path("/s"), port), needs_key) for needs_key in (False, True))
    assert "STOKER_KEY" not in keyless
    assert 'api_key="none"' not in screen
    assert '-H "authorization: Bearer $STOKER_KEY"' in screen
    assert screen.count("\nimport os\nfrom ") == 2
    assert "Requests need a key" in screen
    assert "keys create another --state /s\n" in screen


def test_the_demo_names_the_command_as_another_terminal_finds_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.cli.commands import demo_screen
    from stoker.config.demo import demo as settings

    own = Path(sys.executable).with_name("stoker")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", str(own.parent))
    assert "\nstoker slot status" in demo_screen.screen(settings(Path("/s"), port))
    monkeypatch.setenv("VIRTUAL_ENV", str(own.parent.parent))  # activated here, and not in another terminal
    assert f"\n{own} slot status" in demo_screen.screen(settings(Path("/s"), port))
    monkeypatch.setenv("PATH", "/nowhere")
    screen = demo_screen.screen(settings(Path("/a folder"), port))
    assert f"\n{own} slot status --state '/a folder'\n" in screen
    assert f'export PATH="{own.parent}:$PATH"' in screen


def test_a_second_demo_is_told_where_the_first_one_answers_and_how_to_run_beside_it(
    home: Path, port: int, ran: list[Ran], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = home / ".local" / "state" / "stoker" / "demo"
    state.mkdir(parents=True)
    with contextlib.closing(FakeStoker(StateDir(state).socket_path)):
        assert run(["up", "--demo"]) == 1
        told = capsys.readouterr().err
        pid = status()["pid"]
        assert f"process {pid}, http://127.0.0.1:8000/v1" in told
        assert f"`kill {pid}`" in told
        assert "stoker up --demo --port 8001 --state DIR" in told
        assert run(["up", "--demo", "--port", str(port)]) == 1
        assert f"stoker up --demo --port {port}" in capsys.readouterr().err, "the one that was asked for is not taken"
        assert ran == []
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "other"))
        assert run(["up", "--demo", "--port", str(port)]) == 0
        assert ran[0].settings.paths.state == str(home / "other" / "stoker" / "demo")


@pytest.mark.parametrize("more", [["--config", "x.toml"], ["--leave-running"]], ids=str)
def test_options_that_the_demo_cannot_take_are_usage_errors(more: list[str], ran: list[Ran]) -> None:
    assert run(["up", "--demo", *more]) == 2
    assert ran == []


def test_a_wildcard_address_is_reached_over_loopback() -> None:
    import dataclasses

    from stoker.cli.commands.demo_screen import base_url
    from stoker.config.demo import demo as settings

    plain = settings(Path("/s"), 8000)
    for host, url in {"0.0.0.0": "127.0.0.1", "::1": "[::1]", "10.0.0.1": "10.0.0.1"}.items():
        door = dataclasses.replace(plain.front_door, host=host)
        assert base_url(dataclasses.replace(plain, front_door=door)) == f"http://{url}:8000/v1"


# -- experiment ----------------------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    return tmp_path / "t"


def test_an_experiment_runs_one_serve_and_ends_with_its_preflight(
    config: Path, port: int, ran: list[Ran], temporary: Path, programs: Path, capsys: Captured
) -> None:
    before = config.read_text()
    words = [
        "serves",
        "experiment",
        "--model",
        "fast.gguf",
        "--port",
        str(port),
        "--gpu",
        "GPU-1",
        "--served-name",
        "My X",
    ]
    assert run([*words, "--", "--flash-attn", "--json"]) == 0
    (call,) = ran
    (serve,) = call.settings.serves
    assert (serve.name, serve.served_name, serve.status) == ("my-x", "My X", Status.EXPERIMENT)
    assert serve.model == str(config.parent / "fast.gguf")
    assert serve.extra_args == ("--flash-attn", "--json")
    assert [slot.devices for slot in call.settings.slots] == [("GPU-1",)], "restricted as the serves of any slot"
    assert serve.keep_loaded
    assert call.settings.front_door.port == port
    said = capsys.readouterr()
    out = said.out.rstrip()
    assert "--gpu GPU-1: no such GPU was found (there is none)" in said.err
    assert out.endswith(f"stoker eval preflight --base-url http://127.0.0.1:{port}/v1 --model 'My X'")
    assert "preflight it:\n  stoker eval preflight --base-url" in out
    assert list(temporary.iterdir()) == []
    assert config.read_text() == before


def test_a_failed_experiment_keeps_its_log(
    config: Path, port: int, ran: list[Ran], temporary: Path, capsys: Captured
) -> None:
    sys.modules["stoker.app.run"].code = 1  # type: ignore[attr-defined]
    assert run(["serves", "experiment", "--model", "fast.gguf", "--port", str(port)]) == 1
    (kept,) = temporary.iterdir()
    assert str(kept / "logs" / "fast.log") in capsys.readouterr().err


def test_an_experiment_that_cannot_load_ends_before_it_listens(
    config: Path, port: int, ran: list[Ran], temporary: Path, capsys: Captured
) -> None:
    cut = config.parent / "cut.gguf"
    cut.write_bytes(b"GGUF\x03\0\0\0")
    words = ["serves", "experiment", "--port", str(port), "--model"]
    assert run([*words, str(cut)]) == 1
    assert "cut.gguf is broken" in capsys.readouterr().err
    assert run([*words, "fast.gguf", "--", "--no-such-option"]) == 1
    assert "--no-such-option" in capsys.readouterr().err
    assert (ran, list(temporary.iterdir())) == ([], [])


def test_an_experiment_names_what_is_missing(port: int, ran: list[Ran], capsys: Captured) -> None:
    assert run(["serves", "experiment", "--port", "9"]) == 2
    assert "--model" in capsys.readouterr().err
    assert run(["serves", "experiment", "--model", "x", "--port", "9"]) == 2
    assert "no such file" in capsys.readouterr().err
    assert run(["serves", "experiment", "--model", "x", "--port", "9", "--cmd", "vllm serve {model}"]) == 2
    assert "{port}" in capsys.readouterr().err
    assert ran == []


def test_an_experiment_with_its_own_command_can_be_shown_only(ran: list[Ran], capsys: Captured) -> None:
    words = ["serves", "experiment", "--model", "org/big", "--port", "9", "--gpu", "1", "--dry-run"]
    assert run([*words, "--cmd", "sh serve {model} --port {port}", "--", "--max-len", "8"]) == 0
    out = capsys.readouterr().out
    env = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1"
    assert re.search(rf"{env} \S*/sh serve org/big --port \d+ --max-len 8\n", out)
    assert ran == []


def shown(capsys: Captured, *words: str) -> str:
    """The command that an experiment would start."""
    assert run(["serves", "experiment", "--dry-run", *words]) == 0
    out = capsys.readouterr().out
    assert "http://127.0.0.1:8100/v1" in out, "--port has a default"
    return next(line for line in out.splitlines() if line.startswith("  "))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for engines and Docker on PATH."""
    for name in ("vllm", "sglang", "llama-server", "docker"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_an_experiment_with_a_model_of_the_hub_needs_only_its_engine(
    programs: Path, ran: list[Ran], capsys: Captured
) -> None:
    found = shown(capsys, "--model", "org/Big-7B", "--engine", "vllm", "--gpu", "GPU-1")
    assert re.search(
        r"CUDA_VISIBLE_DEVICES=GPU-1 .*/vllm serve org/Big-7B --served-model-name big-7b --host 127\.0\.0\.1 "
        r"--port \d+ .*--max-model-len 4096",
        found,
    )
    found = shown(capsys, "--model", "org/Big-7B", "--engine", "sglang", "--", "--tp", "2")
    assert re.search(r"--model-path org/Big-7B --served-model-name big-7b .*--context-length 4096.* --tp 2", found)
    found = shown(capsys, "--model", "org/Big-GGUF:Q4_K_M", "--engine", "llama.cpp", "--parallel", "2")
    assert re.search(
        r"/llama-server -hf org/Big-GGUF:Q4_K_M --alias \S+ --host 127\.0\.0\.1 --port \d+ -c 8192 -np 2", found
    )
    assert run(["serves", "experiment", "--model", "org/Big-7B", "--engine", "vllm"]) == 0
    [serve] = ran[0].settings.serves
    assert serve.ready_timeout > 3600, "its weights are downloaded first"


def test_an_experiment_in_a_container_gets_the_gpu_that_was_named_or_is_refused(
    programs: Path, ran: list[Ran], capsys: Captured
) -> None:
    words = ("--model", "org/x", "--engine", "vllm", "--container", "image")
    assert "--gpus device=9 " in shown(capsys, *words, "--gpu", "9")
    assert run(["serves", "experiment", "--dry-run", *words, "--gpu", "0000:41:00.0"]) == 2
    assert "--gpu 0000:41:00.0: nobody knows which device" in capsys.readouterr().err


def test_an_experiment_in_a_container_publishes_its_port_and_is_removed_at_the_end(
    programs: Path, ran: list[Ran], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(discover, "gpus", lambda: [Gpu(0, "GPU-1", "H200", None, "nvidia")])
    words = ("--model", "org/Big-7B", "--container", "some/image:1")
    found = shown(capsys, *words, "--engine", "vllm", "--gpu", "GPU-1")
    assert re.search(
        r"docker run --rm --name stoker-experiment-big-7b --gpus device=GPU-1 .*-p 127\.0\.0\.1:\d+:8000 .*"
        r"--entrypoint vllm some/image:1 serve org/Big-7B",
        found,
    )
    assert "--gpus all" in shown(capsys, *words, "--engine", "sglang")
    assert "some/image:1 -hf org/Big-7B" in shown(capsys, *words, "--engine", "llama.cpp")
    assert run(["serves", "experiment", *words, "--engine", "vllm"]) == 0
    assert ran[0].settings.serves[0].stop == ("docker", "rm", "--force", "stoker-experiment-big-7b")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model", "org/x"), "for a model of the hub add --engine llama.cpp|vllm|sglang"),
        (("--model", "org/x", "--engine", "ollama"), "--engine ollama: not known; one of llama.cpp, vllm, sglang"),
        (("--model", "org/x", "--container", "i"), "--container i: say which engine it holds: --engine"),
        (("--model", "org/x", "--engine", "vllm", "--cmd", "x {port}"), "leave out --engine and --container"),
    ],
)
def test_an_experiment_says_which_options_go_together(
    words: tuple[str, ...], told: str, ran: list[Ran], capsys: Captured
) -> None:
    assert run(["serves", "experiment", *words]) == 2
    assert told in capsys.readouterr().err
