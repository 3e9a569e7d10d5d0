"""The command line as a whole: exit codes, errors for people and programs, and how quickly help comes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, error

import stoker.cli
from stoker import __version__
from stoker.cli.console import terminal
from stoker.cli.main import COMMANDS, run
from stoker.domain.build import IS_COMPILED, describe_version
from stoker.domain.key import SETTING_NAMES

HEAVY = ("rich", "pydantic", "asyncio", "prometheus_client", "psutil", "msgspec", "sqlite3", "http.client")


def test_a_command_imports_no_other_command_and_no_pydantic() -> None:
    program = (
        "import sys; from stoker.cli.main import run; run(['serves', 'status', '--config', 'missing.toml']);"
        "print(*(m for m in sys.modules if m == 'pydantic' or m.count('.commands.') == 1))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    imported = set(done.stdout.split())
    assert "stoker.cli.commands.serves" in imported
    assert imported.isdisjoint({"pydantic", "stoker_setup.commands.init", "stoker_lab.commands.benchmark"})


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from stoker.cli.main import run; code = run(['--help']);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "serves" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("command", "instead"),
    [("status", "stoker serves status"), ("ps", "stoker serves status"), ("logs", "stoker serves logs NAME"),
     ("models", "stoker serves status"), ("list", "stoker serves status"), ("pull", "stoker add MODEL"),
     ("serve", "stoker up"), ("restart", "stoker up --replace"), ("chat", "stoker client NAME"),
     ("drain", "stoker serves drain"), ("serves list", "stoker serves status"),
     ("serves stop", "stoker serves down NAME"), ("slot drain", "stoker serves drain"),
     ("eval gate", "stoker gate SERVE"), ("orchestrator run", 'stoker run "PROMPT"'),
     ("keys explain", "stoker explain"), ("config pull", "stoker add MODEL"),
     ("keys revoke", "stoker keys disable NAME"), ("keys add", "stoker keys create NAME"),
     ("keys limit", "stoker keys set NAME"), ("config effective", "stoker config show"),
     ("import models", "stoker init, or stoker import llama.cpp DIR")],
)  # fmt: skip
def test_a_command_of_other_programs_is_answered_with_the_one_to_type(
    command: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    assert f"No such command '{command.split()[-1]}'. Use: {instead}" in capsys.readouterr().err
    first = instead.split(",")[0].split()[1:3]
    assert run([*first, "--help"]) == 0


def test_a_shell_that_is_not_known_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completions", "powershell"]) == 2
    assert "Invalid value for 'SHELL': 'powershell' is none of bash, zsh and fish." in capsys.readouterr().err
    assert run(["completions", "fish"]) == 0


@pytest.mark.parametrize("command", ["set", "create"])
@pytest.mark.parametrize(
    ("words", "instead"),
    [("--tokens-per-minute 500", "--set tokens_per_minute=500"),
     ("--tokens_per_month=9", "--set tokens_per_month=9"), ("--default-model --json", "--set default_model=VALUE"),
     ("--verify hold-all", "--set verify=hold-all"), ("--system-prompt=$HOME", "--set 'system_prompt=$HOME'"),
     ("--cost_per_day 3", "--set cost_per_day=3")],
)  # fmt: skip
def test_a_setting_of_keys_without_an_option_is_answered_with_the_form_that_takes_all(
    command: str, words: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["keys", command, "alice", *words.split()]) == 2
    option = words.replace("=", " ").split()[0]
    assert f"No such option: {option}. Use: {instead}\n" in capsys.readouterr().err


def test_other_unknown_options_of_keys_are_answered_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "set", "alice", "--tokens-per-dya", "5"]) == 2
    assert "No such option: --tokens-per-dya" in capsys.readouterr().err


def test_what_only_a_new_key_takes_is_answered_with_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "set", "alice", "--expires", "90d"]) == 2
    assert "No such option: --expires. A key's end is set when it is made: stoker keys create NAME --expires 90d" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("words", [["config", "check"], ["serves", "status"]])
def test_a_directory_that_is_given_as_the_configuration_is_said_to_be_one(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stoker.toml"
    assert run([*words, "--config", str(tmp_path)]) == 2
    assert f"is a directory without a stoker.toml; `stoker init --path {file}` writes one" in capsys.readouterr().err
    file.write_text("")
    assert run([*words, "--config", str(tmp_path)]) == 2
    assert f"is a directory: name the file in it, {file}" in capsys.readouterr().err


def test_every_setting_of_keys_has_an_option_or_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    for name in SETTING_NAMES:
        run(["keys", "set", f"--{name.replace('_', '-')}"])
        err = capsys.readouterr().err
        assert f"--set {name}=VALUE" in err or "No such option" not in err


def test_every_command_is_named_once_with_a_summary_that_fits_on_a_line() -> None:
    names = [command.name for command in COMMANDS]
    assert len(names) == len(set(names)), names
    assert [one.name for one in COMMANDS if len(one.summary) > 60 or not one.summary.endswith(".")] == []


def test_every_group_and_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["serves"], ["slot"], ["config"], ["serves", "experiment"], ["up"]):
        assert run([*words, "--help"]) == 0
        assert "Usage: stoker" in capsys.readouterr().out


def test_a_command_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve"]) == 2
    assert "serves" in capsys.readouterr().err  # the near one is named
    assert run(["serves", "up", "--nonsense"]) == 2


def test_version_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"stoker {describe_version()}\n" * 2
    assert run(["version", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["version"], said["compiled"]) == (__version__, IS_COMPILED)


def test_without_a_configuration_the_next_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["slot", "list"]) == 2
    assert "stoker init" in capsys.readouterr().err


def test_without_a_running_stoker_the_command_that_starts_it_is_told(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["slot", "list"], ["serves", "status"], ["reload"], ["serves", "drain"]):
        assert run([*words, "-c", str(config)]) == 1
        assert f"stoker up --config {config}" in capsys.readouterr().err


def test_an_error_for_a_program_is_one_json_document(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["slot", "list", "--json"]) == 1
    out = capsys.readouterr().out
    assert json.loads(out)["error"]["code"] == "not_running"


def test_manifest_means_config(stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serves", "status", "--manifest", str(config)]) == 0
    assert "fast" in capsys.readouterr().out


def test_a_demo_is_found_by_itself_when_there_is_no_configuration(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = home / ".local" / "state" / "stoker" / "demo"
    state.mkdir(parents=True, mode=0o700)
    (state / "lock").touch()
    assert run(["slot", "list"]) == 1
    assert "stoker up --demo" in capsys.readouterr().err
    fake = FakeStoker(state / "stoker.sock")
    try:
        assert run(["slot", "list"]) == 0
        assert run(["slot", "list", "--state", str(state)]) == 0
    finally:
        fake.close()
    assert run(["slot", "list", "--state", str(home / "nowhere")]) == 2


def test_beside_another_one_a_person_is_told_which_stoker_is_asked(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [home / ".local" / "state" / "stoker" / "demo", home / "other" / "stoker" / "demo"]
    for state in states:
        state.mkdir(parents=True, mode=0o700)
        (state / "lock").touch()
    told = f"this is about the Stoker of {states[0]}; others run: "
    fakes = [FakeStoker(state / "stoker.sock") for state in states]
    try:
        assert run(["slot", "list"]) == 0
        assert told not in capsys.readouterr().err, "a program is told nothing"
        monkeypatch.setattr(terminal, "is_live", lambda stderr=False: stderr)
        assert run(["slot", "list", "--state", str(states[1])]) == 0
        assert told not in capsys.readouterr().err, "it was named"
        assert run(["slot", "list"]) == 0
        err = capsys.readouterr().err
    finally:
        for fake in fakes:
            fake.close()
    assert told in err
    assert f"--state {states[1]}" in err
    assert f"--state {states[0]}" not in err


def test_a_stoker_that_runs_is_found_from_any_directory(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = home / ".local" / "state" / "stoker"
    (own / "demo").mkdir(parents=True, mode=0o700)
    (own / "demo" / "lock").touch()  # a demo of yesterday
    fake = FakeStoker(own / "stoker.sock")
    try:
        assert run(["serves", "status"]) == 0
    finally:
        fake.close()
    assert "fast" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["orchestrator", "prompts"], "# worker prompt of coder"),
        (["eval", "bootstrap", "nobody"], "there is no tier 'nobody'; known tiers: fast"),
        (["profile", "show"], "nothing is measured"),
    ],
)
def test_in_any_folder_a_command_knows_the_file_of_the_stoker_that_runs(
    home: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str],
    said: str,
) -> None:  # fmt: skip
    """Not the demo's orchestrator, and not that there are no tiers."""
    more = '[[tier]]\nname = "fast"\nserve = "fast"\n[orchestrator.coder]\nworker = "fast"\n'
    config.write_text(f"{config.read_text()}\n{more}")
    state = home / ".local" / "state" / "stoker"
    state.mkdir(parents=True, mode=0o700)
    (state / "lock").write_text(f"1\n{config}\n")
    monkeypatch.chdir("/")
    fake = FakeStoker(state / "stoker.sock")
    try:
        run(words)
    finally:
        fake.close()
    out = capsys.readouterr()
    assert said in out.out + out.err


@pytest.mark.parametrize("words", [["orchestrator", "prompts"], ["profile", "show"], ["eval", "bootstrap"]])
def test_without_the_file_of_the_stoker_that_runs_it_is_asked_for(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    state = home / ".local" / "state" / "stoker"
    state.mkdir(parents=True, mode=0o700)
    (state / "lock").write_text("1\n/gone/stoker.toml\n")
    fake = FakeStoker(state / "stoker.sock")
    try:
        assert run(words) == 2
    finally:
        fake.close()
    said = capsys.readouterr()
    assert "--config FILE" in said.err
    assert said.out == ""


def test_of_the_demo_no_configuration_is_asked_for_since_it_has_none(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = home / ".local" / "state" / "stoker" / "demo"
    state.mkdir(parents=True, mode=0o700)
    (state / "lock").touch()
    assert run(["profile", "show"]) == 2
    assert "the demo has none: `stoker init` writes one" in capsys.readouterr().err


def test_without_a_file_the_stokers_that_run_elsewhere_are_named_and_none_is_chosen(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = home / "a" / "state"
    state.mkdir(parents=True, mode=0o700)
    (state / "lock").touch()
    fake = FakeStoker(state / "stoker.sock")
    try:
        assert run(["serves", "status"]) == 2
    finally:
        fake.close()
    assert f"--state {state}" in capsys.readouterr().err
    assert fake.asked == []


def test_a_secret_that_only_the_running_stoker_has_is_no_problem(
    stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        '[front_door]\nkeys = [{ name = "a", value = "env:NOT_HERE" }]\n'
        + config.read_text().replace("[front_door]\n", "")
    )
    assert run(["config", "check"]) == 0
    said = capsys.readouterr()
    assert "NOT_HERE is not set" in said.err
    assert "the running Stoker has it" in said.err
    assert "next: stoker reload" in said.out
    assert run(["config", "show"]) == 0
    assert "env:NOT_HERE" in capsys.readouterr().out
    stoker.close()
    assert run(["config", "check"]) == 2
    assert "NOT_HERE is not set" in capsys.readouterr().err


def test_a_stoker_that_runs_on_another_file_has_no_secret_of_this_one(
    stoker: FakeStoker, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `stoker up` says of that file."""
    other = config.with_name("other.toml")
    cluster = '[clusters.lab]\naddress = "http://10.0.0.7:8265"\ntoken = "env:NOT_HERE"\n'
    other.write_text(config.read_text() + cluster)
    lock = config.parent / "state" / "lock"
    lock.write_text(f"1\n{other}\n")
    assert run(["config", "check", "--config", "other.toml"]) == 0
    lock.write_text(f"1\n{config}\n")
    capsys.readouterr()
    assert run(["config", "check", "--config", "other.toml"]) == 2
    assert "key 'clusters.lab.token': the environment variable NOT_HERE" in capsys.readouterr().err


def test_a_demo_that_runs_beside_a_configuration_is_pointed_at(
    home: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = home / ".local" / "state" / "stoker" / "demo"
    demo.mkdir(parents=True)
    (demo / "stoker.sock").touch()
    assert run(["slot", "list"]) == 1
    assert f"add --state {demo} to reach it" in capsys.readouterr().err


def test_reload_tells_what_changed_and_fails_with_problems(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"changed": ["fast"], "added": ["new"], "removed": [], "routing": False, "lapsed": [], "ended": [],
              "problems": [], "warnings": ["stoker.toml:3: key 'y': odd"],
              "settings": ["serve[fast].port", "serve[new]"]}  # fmt: skip
    stoker.answer("POST /admin/reload", answer)
    assert run(["reload"]) == 0
    said = capsys.readouterr()
    assert said.out == "changed: fast\nadded: new\nsetting: serve[fast].port\n"
    assert said.err == "warning: stoker.toml:3: key 'y': odd\n"
    assert run(["reload", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    stoker.answer("POST /admin/reload", {"problems": ["stoker.toml:3: key 'x': what is this"]})
    assert run(["reload"]) == 1
    assert "stoker.toml:3" in capsys.readouterr().err
    stoker.answer("POST /admin/reload", {})
    assert run(["reload", "--dry-run"]) == 0
    assert (stoker.posts()[-1], capsys.readouterr().out) == (
        ("POST /admin/reload", {"dry_run": True}),
        "nothing would change\n",
    )
    stoker.answer("POST /admin/reload", {})
    assert run(["reload"]) == 0
    assert capsys.readouterr().out == "nothing changed\n"
    stoker.answer("POST /admin/reload", error("the demo has no file", "no_configuration"), 409)
    assert run(["reload"]) == 1
    assert "the demo has no file" in capsys.readouterr().err


def test_reload_names_the_tiers_whose_measurements_hold_no_longer_and_what_to_type(
    stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    lapsed = [{"tier": "small", "class": name} for name in ("chat", "planning")] + [{"tier": "big", "class": "chat"}]
    stoker.answer("POST /admin/reload", {"routing": True, "lapsed": lapsed})
    assert run(["reload"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(" may have")[0] for line in told] == ["stoker: tier small", "stoker: tier big"]
    assert "at chat, planning;" in told[0]
    assert told[0].endswith("stoker eval calibrate small")


def test_options_after_two_dashes_belong_to_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serves", "experiment", "--model", "none.gguf", "--port", "9", "--", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "none.gguf" in captured.err


READS_SECRETS = {
    "commands/read_again.py": "starts the serves with them",
    "stoker_setup/commands/install.py": "checks that the service will have them",
    "stoker_setup/commands/init.py": "checks the file that it has just written",
    "stoker_tools/commands.py": "makes the call itself, where no Stoker may run",
    "stoker_import/write.py": "says which variables are missing",
    "stoker_edge/route_sync.py": "asks workers and public routes with them, where no Stoker may run",
    "console/installation.py": "for `config check` and `doctor`, which say what is missing",
}


def test_only_commands_that_use_secrets_themselves_read_them() -> None:
    """A command that asks the running Stoker has to work in every shell."""
    root = Path(stoker.cli.__file__).parent
    strict = re.compile(r"\b(?:load_settings\([\w.]+\)|config\.load import .*\bload\b(?s:.*?)[^.\w]load\(path\))")
    source = root.parents[1]
    files = [*root.rglob("*.py"), *(path for extension in source.glob("stoker_*") for path in extension.rglob("*.py"))]
    found = {path.relative_to(source).as_posix() for path in files if strict.search(path.read_text())}
    assert {name.removeprefix("stoker/cli/") for name in found} == {*READS_SECRETS}
