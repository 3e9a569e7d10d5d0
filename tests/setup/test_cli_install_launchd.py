"""`stoker install launchd`: the property lists that it writes, what it refuses, and the commands of launchctl.

launchctl is scripted here: no Mac has run this.
"""

from __future__ import annotations

import json
import os
import plistlib
import pwd
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.cli.main import run
from stoker.domain.errors import StokerError
from stoker.store.active_residents import ActiveResidents
from stoker_setup import service_install
from stoker_setup.commands import install

Captured = pytest.CaptureFixture[str]
AGENTS = "Library/LaunchAgents"


class Launchctl:
    """What is loaded, and every command that was run."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.ran: list[tuple[str, ...]] = []
        self.fails_at = ""

    def __call__(self, argv: Sequence[str]) -> None:
        self.ran.append(tuple(argv))
        _, verb, domain, *rest = argv
        if self.fails_at and self.fails_at in argv[-1] and verb == "bootstrap":
            raise StokerError("`launchctl bootstrap`: Input/output error", code="systemd_failed")
        if verb == "bootstrap":
            self.loaded.add(f"{domain}/{Path(rest[0]).stem}")
        elif domain not in self.loaded:
            raise StokerError("Boot-out failed: 3: No such process", code="systemd_failed")
        else:
            self.loaded.remove(domain)


@pytest.fixture(autouse=True)
def mac(home: Path, monkeypatch: pytest.MonkeyPatch) -> Launchctl:
    """A Mac whose user has this home."""
    account = pwd.getpwuid(os.geteuid())
    at_home = pwd.struct_passwd((*account[:5], str(home), *account[6:]))
    fake = Launchctl()
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(install, "is_macos", lambda: True)
    monkeypatch.setattr(install, "_account", lambda user, run_as: at_home)
    monkeypatch.setattr(install, "_is_loaded", lambda name: name in fake.loaded)
    monkeypatch.setattr(service_install, "command", fake)
    return fake


def lists(home: Path) -> dict[str, dict[str, object]]:
    return {path.stem: plistlib.loads(path.read_bytes()) for path in (home / AGENTS).glob("*.plist")}


DOMAIN = f"gui/{os.geteuid()}"


def test_it_is_written_started_and_removed(config: Path, home: Path, mac: Launchctl, capsys: Captured) -> None:
    assert run(["install", "launchd", "--start"]) == 0
    assert f"wrote   {home}/{AGENTS}/stoker.front-door.plist\n" in capsys.readouterr().out
    found = lists(home)
    front_door = found["stoker.front-door"]
    words = list(front_door["ProgramArguments"])  # type: ignore[call-overload]
    assert words[1:] == ["up", "--config", str(config.resolve()), "--leave-running", "--resume"]
    assert front_door["Label"] == "stoker.front-door"
    assert (front_door["RunAtLoad"], front_door["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert front_door["AbandonProcessGroup"] is True, "engines outlive it"
    assert isinstance(front_door["ExitTimeOut"], int)
    assert "UserName" not in front_door
    assert found["stoker.watchdog"]["StartInterval"] == 60
    assert mac.loaded == {f"{DOMAIN}/stoker.front-door", f"{DOMAIN}/stoker.watchdog"}
    assert run(["install", "launchd", "--start"]) == 0
    assert "every unit is up to date" in capsys.readouterr().out
    assert len(mac.ran) == 2
    assert run(["install", "launchd", "--remove"]) == 0
    said = capsys.readouterr()
    assert "stoker serves down" in said.err
    assert (mac.loaded, lists(home)) == (set(), {})


def test_a_change_restarts_it(config: Path, home: Path, mac: Launchctl) -> None:
    assert run(["install", "launchd", "--start"]) == 0
    config.write_text(config.read_text().replace("[front_door]", '[front_door]\nshutdown_grace = "99s"', 1))
    assert run(["install", "launchd", "--start"]) == 0
    assert [words[1] for words in mac.ran[2:]] == ["bootout", "bootout", "bootstrap", "bootstrap"]
    assert len(mac.loaded) == 2


def test_without_start_the_commands_are_told(config: Path, home: Path, mac: Launchctl, capsys: Captured) -> None:
    assert run(["install", "launchd", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["next"][0] == ["launchctl", "bootstrap", DOMAIN, f"{home}/{AGENTS}/stoker.front-door.plist"]
    assert mac.ran == []


def test_a_start_that_fails_leaves_nothing(config: Path, home: Path, mac: Launchctl, capsys: Captured) -> None:
    mac.fails_at = "stoker.watchdog"
    assert run(["install", "launchd", "--start"]) == 1
    assert "every file was restored" in capsys.readouterr().err
    assert (mac.loaded, lists(home)) == (set(), {})


def test_one_of_the_system_runs_as_an_account_and_writes_below_a_root(config: Path, home: Path) -> None:
    assert run(["install", "launchd", "--system", "--root", str(home / "root"), "--profile", "slow"]) == 0
    path = home / "root/Library/LaunchDaemons/stoker.front-door.plist"
    assert plistlib.loads(path.read_bytes())["UserName"] == pwd.getpwuid(os.geteuid()).pw_name
    state = home / "root" / str(config.resolve().parent / "state").lstrip("/") / "active.json"
    assert ActiveResidents(state).read() == {"gpu0": "slow"}


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--remove", "--start"), 2, "leave out --profile and --start"),
        (("--run-as", "me"), 2, "add --system"),
        (("--start", "--root", "/x"), 2, "leave out --start"),
        (("--profile", "slwo"), 2, "did you mean 'slow'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    config: Path, home: Path, capsys: Captured, options: tuple[str, ...], code: int, said: str
) -> None:
    assert run(["install", "launchd", *options]) == code
    assert said in capsys.readouterr().err
    assert lists(home) == {}


def test_what_somebody_else_wrote_or_changed_stays(config: Path, home: Path, capsys: Captured) -> None:
    path = home / AGENTS / "stoker.front-door.plist"
    path.parent.mkdir(parents=True)
    path.write_text("<plist/>")
    assert run(["install", "launchd"]) == 1
    assert "was not written by Stoker" in capsys.readouterr().err
    assert run(["install", "launchd", "--force"]) == 0
    path.write_text(path.read_text().replace("Interactive", "Background"))
    assert run(["install", "launchd"]) == 1
    assert "was changed by hand" in capsys.readouterr().err
    assert run(["install", "launchd", "--remove"]) == 1
    assert path.exists()


def test_secrets_of_the_shell_and_units_are_refused(
    config: Path, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config.read_text()
    monkeypatch.setenv("STOKER_TEAM", "x" * 40)
    keys = '[front_door]\nkeys = [{ name = "t", value = "env:STOKER_TEAM" }]'
    config.write_text(before.replace("[front_door]", keys, 1))
    assert run(["install", "launchd"]) == 1
    assert "variables STOKER_TEAM" in capsys.readouterr().err
    unit = '[[serve]]\nname = "u"\nmodel = "fast.gguf"\ndriver = "systemd"\nport = 8109\n'
    config.write_text(f"{before}\n{unit}")
    assert run(["install", "launchd"]) == 1
    assert "launchd runs no units" in capsys.readouterr().err


def test_elsewhere_it_is_only_shown(
    config: Path, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "is_macos", lambda: False)
    assert run(["install", "launchd"]) == 1
    assert "stoker install systemd" in capsys.readouterr().err
    assert run(["install", "launchd", "--dry-run"]) == 0
    assert "<key>AbandonProcessGroup</key>" in capsys.readouterr().out
    assert lists(home) == {}
