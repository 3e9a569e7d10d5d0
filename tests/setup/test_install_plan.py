"""What an installation changes on a machine, what it leaves alone, and that nothing half done stays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.domain.errors import StokerError
from stoker.domain.serve import Driver, Serve
from stoker.fleet.systemd import units
from stoker.fleet.systemd.units import InstallSite, Origin
from stoker_setup import service_install as install
from stoker_setup.service_install import Changes, InstallRefused

SITE = InstallSite("/srv/stoker.toml", "/var/lib/stoker", ("/usr/bin/stoker",), "llm", "/home/llm")
SERVE = Serve(
    name="a",
    engine="openai",
    driver=Driver.SYSTEMD,
    unit="stoker-serve-a.service",
    cmd=(sys.executable, "--port", "{port}"),
    port=8101,
    directory="/srv",
)
PLAIN = replace(SERVE, name="b", driver=Driver.PROCESS, unit=None)
RULE = "etc/polkit-1/rules.d/50-stoker.rules"


def nobody(argv: Sequence[str]) -> None:
    pytest.fail(f"{argv} was run")


def put(root: Path, serves: Sequence[Serve] = (SERVE, PLAIN), site: InstallSite = SITE, force: bool = False) -> Changes:
    changes = install.plan(site, serves, root, force, False)
    install.carry_out(changes, nobody)
    return changes


def there(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def unit(root: Path, name: str) -> Path:
    return root / "etc/systemd/system" / name


def test_front_door_watchdog_units_and_rule_are_written_and_nothing_is_run_under_another_root(tmp_path: Path) -> None:
    changes = put(tmp_path)
    names = (
        "stoker.service",
        "stoker.socket",
        "stoker-watchdog.service",
        "stoker-watchdog.timer",
        "stoker-serve-a.service",
    )
    assert there(tmp_path) == {RULE, *(f"etc/systemd/system/{name}" for name in names)}
    assert changes.next == (("systemctl", f"--root={tmp_path}", "enable", "stoker.socket", "stoker.service"),)
    assert put(tmp_path).files == {}, "a second time there is nothing to change"


def test_root_needs_no_rule_and_units_of_a_user_go_into_the_users_directory(tmp_path: Path) -> None:
    put(tmp_path / "root", site=replace(SITE, user="root"))
    assert RULE not in there(tmp_path / "root")
    put(tmp_path / "user", site=replace(SITE, user=None))
    assert {Path(path).parent for path in there(tmp_path / "user")} == {Path("home/llm/.config/systemd/user")}


def test_a_unit_that_was_changed_by_hand_is_not_written_over_unless_forced(tmp_path: Path) -> None:
    put(tmp_path)
    path = unit(tmp_path, "stoker.service")
    path.write_text(path.read_text() + "Nice=5\n")
    before = {name: (tmp_path / name).read_text() for name in there(tmp_path)}
    with pytest.raises(InstallRefused, match=r"changed by hand: put the change into a drop-in .* add --force"):
        put(tmp_path, [replace(SERVE, port=8102)])
    assert before == {name: (tmp_path / name).read_text() for name in there(tmp_path)}
    put(tmp_path, force=True)
    assert units.origin(path.read_text()) is Origin.OURS


@pytest.mark.parametrize("kind", ["foreign", "masked", "other"])
def test_what_is_not_of_this_configuration_is_not_written_over(tmp_path: Path, kind: str) -> None:
    path = unit(tmp_path, "stoker.service")
    path.parent.mkdir(parents=True)
    if kind == "masked":
        path.symlink_to("/dev/null")
    elif kind == "foreign":
        path.write_text("[Service]\nExecStart=/x\n")
    else:
        put(tmp_path, site=replace(SITE, config="/other.toml"))
    said = {"foreign": "not written by Stoker", "masked": "systemctl unmask", "other": "belongs to /other.toml"}[kind]
    with pytest.raises(InstallRefused, match=said):
        put(tmp_path)
    put(tmp_path, force=True)
    assert units.source(path.read_text()) == SITE.config
    assert not path.is_symlink()


@pytest.mark.parametrize("where", ["etc/systemd/system", "usr/lib/systemd/system"])
def test_a_unit_that_its_owner_wrote_is_left_alone(tmp_path: Path, where: str) -> None:
    path = tmp_path / where / "vllm.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/usr/bin/vllm serve\n")
    changes = put(tmp_path, [replace(SERVE, unit="vllm.service")])
    assert path.read_text() == "[Service]\nExecStart=/usr/bin/vllm serve\n"
    assert changes.notes == (f"vllm.service belongs to its owner ({path}): left as it is",)
    assert '"vllm.service"' in (tmp_path / RULE).read_text(), "Stoker may start and stop it"
    if where != "etc/systemd/system":
        assert not unit(tmp_path, "vllm.service").exists()


def test_a_serve_that_is_not_configured_any_more_loses_its_unit(tmp_path: Path) -> None:
    put(tmp_path, [SERVE, replace(SERVE, name="c", unit="stoker-serve-c.service")])
    unit(tmp_path, "mine.service").write_text("[Service]\nExecStart=/x\n")
    changes = put(tmp_path, [SERVE])
    assert changes.files[unit(tmp_path, "stoker-serve-c.service")] is None
    assert not unit(tmp_path, "stoker-serve-c.service").exists()
    assert unit(tmp_path, "mine.service").exists()


def test_every_problem_is_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    broken = [replace(SERVE, name=name, unit=f"{name}.service", cmd=(f"/no/{name}",)) for name in "xy"]
    with pytest.raises(InstallRefused) as error:
        put(tmp_path, broken)
    assert "/no/x" in error.value.message
    assert "/no/y" in error.value.message
    with pytest.raises(InstallRefused, match="line break"):
        put(tmp_path, [replace(SERVE, extra_args=("a\nb",))])
    assert there(tmp_path) == set()


def test_removal_takes_away_what_is_ours_and_only_that(tmp_path: Path) -> None:
    put(tmp_path)
    unit(tmp_path, "mine.service").write_text("[Service]\nExecStart=/x\n")
    other = replace(SERVE, unit="stoker-serve-z.service")
    unit(tmp_path, "stoker-serve-z.service").write_text(
        units.render(replace(SITE, config="/other.toml"), [other])["stoker-serve-z.service"]
    )
    path = unit(tmp_path, "stoker.service")
    ours = path.read_text()
    path.write_text(ours + "Nice=5\n")
    with pytest.raises(InstallRefused, match="changed by hand"):
        install.plan_removal(SITE, tmp_path, False)
    path.write_text(ours)
    install.carry_out(install.plan_removal(SITE, tmp_path, False), nobody)
    assert there(tmp_path) == {"etc/systemd/system/mine.service", "etc/systemd/system/stoker-serve-z.service"}
    assert install.plan_removal(SITE, tmp_path, False).files == {}


# -- on this machine itself: only planned -----------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the plans take for / lies under tmp_path."""
    monkeypatch.setattr(install, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(install, "RULES", tmp_path / "rules" / "50-stoker.rules")
    monkeypatch.setattr(install, "UNIT_PATHS", ())
    return tmp_path


ENABLE = "systemctl enable stoker.socket stoker.service"


def commands(site: InstallSite, serves: Sequence[Serve]) -> list[str]:
    """What installing and starting runs."""
    ran: list[str] = []
    install.carry_out(install.plan(site, serves, Path("/"), False, True), lambda argv: ran.append(" ".join(argv)))
    return ran


def test_start_enables_and_starts_the_front_door_and_restarts_it_only_if_its_unit_changed(machine: Path) -> None:
    assert commands(SITE, [SERVE]) == ["systemctl daemon-reload", ENABLE, "systemctl start stoker.service"]
    slow = replace(SITE, shutdown_grace=99.0)
    assert commands(slow, [SERVE]) == ["systemctl daemon-reload", ENABLE, "systemctl restart stoker.service"]
    serves = [SERVE, replace(SERVE, name="c", unit="stoker-c.service")]
    assert commands(slow, serves) == ["systemctl daemon-reload", ENABLE, "systemctl start stoker.service"]
    changes = install.plan(slow, serves, Path("/"), False, False)
    assert (changes.files, changes.after) == ({}, ())
    assert [" ".join(argv) for argv in changes.next] == [ENABLE, "systemctl start stoker.service"]


def test_another_address_stops_the_socket_and_the_front_door_before_both_start_again(machine: Path) -> None:
    commands(SITE, [SERVE])
    assert commands(replace(SITE, port=9000), [SERVE]) == [
        "systemctl daemon-reload",
        ENABLE,
        "systemctl stop stoker.socket stoker.service",
        "systemctl start stoker.service",
    ]
    (machine / "system" / "stoker.socket").unlink()  # as it was before Stoker had one
    assert commands(replace(SITE, port=9000), [SERVE])[2] == "systemctl stop stoker.service"


@pytest.mark.parametrize(
    ("is_new", "failing"),
    [
        (True, "daemon-reload"),
        (True, "enable"),
        (True, "start"),
        (False, "daemon-reload"),
        (False, "enable"),
        (False, "restart"),
    ],
)  # fmt: skip
def test_when_a_command_fails_everything_is_as_it_was(machine: Path, failing: str, is_new: bool) -> None:
    if not is_new:
        install.carry_out(install.plan(SITE, [SERVE], Path("/"), False, False), lambda argv: None)
    before = {path: path.read_text() for path in machine.rglob("*") if path.is_file()}
    ran: list[str] = []

    def run(argv: Sequence[str]) -> None:
        ran.append(argv[1])
        if argv[1] == failing:
            raise StokerError(f"`{failing}` says no", code="systemd_failed")

    changed = install.plan(replace(SITE, shutdown_grace=99.0), [SERVE], Path("/"), False, True)
    with pytest.raises(InstallRefused, match=f"every file was restored: `{failing}` says no"):
        install.carry_out(changed, run)
    assert {path: path.read_text() for path in machine.rglob("*") if path.is_file()} == before
    undone = ran[ran.index(failing) + 1 :]
    assert undone == (["stop", "disable", "daemon-reload"] if is_new else ["daemon-reload"])


def test_removal_disables_first_and_stops_the_front_door_before_its_serves(machine: Path) -> None:
    install.carry_out(install.plan(SITE, [SERVE], Path("/"), False, False), lambda argv: None)
    ran: list[str] = []
    changes = install.plan_removal(SITE, Path("/"), False)
    install.carry_out(changes, lambda argv: ran.append(" ".join(argv)))
    assert ran == [
        "systemctl disable stoker.socket",
        "systemctl disable stoker.service",
        "systemctl stop stoker.socket stoker.service stoker-watchdog.timer stoker-watchdog.service",
        "systemctl stop stoker-serve-a.service",
        "systemctl daemon-reload",
    ]
    assert there(machine) == set()


def test_units_of_a_user_are_the_users_systemds_and_need_lingering_to_start_at_boot(machine: Path) -> None:
    site = replace(SITE, user=None, home=str(machine))
    changes = install.plan(site, [SERVE], Path("/"), False, False)
    assert changes.after == (("systemctl", "--user", "daemon-reload"),)
    assert changes.next[0] == ("loginctl", "enable-linger")
    assert changes.next[1] == ("systemctl", "--user", "enable", "stoker.socket", "stoker.service")


def test_a_directory_that_may_not_be_written_is_told_with_the_next_command(machine: Path) -> None:
    (machine / "system").write_text("no directory")
    with pytest.raises(InstallRefused, match="run the command with `sudo`, or with `--user`"):
        install.carry_out(install.plan(SITE, [PLAIN], Path("/"), False, False), lambda argv: None)


def test_a_command_is_run_without_a_shell_and_its_failure_is_told() -> None:
    install.command([sys.executable, "-c", "import sys; assert sys.argv[1] == '$HOME;'", "$HOME;"])
    with pytest.raises(StokerError, match=r"sys\.exit.*: it said so"):
        install.command([sys.executable, "-c", "import sys; sys.exit('it said so')"])
    with pytest.raises(StokerError, match="`/no/such`: No such file"):
        install.command(["/no/such"])


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(StokerError, match=r"not done after 0\.05 s"):
        install.command([sys.executable, "-S", "-c", "import signal; signal.pause()"], timeout=0.05)
