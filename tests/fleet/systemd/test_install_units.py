"""What the units say, to a reader of our own and to systemd itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleet.systemd import systemd_syntax as reader

from stoker.domain.serve import Driver, Serve
from stoker.fleet.systemd import units
from stoker.fleet.systemd.units import InstallSite, Origin

SITE = InstallSite(
    config="/srv/st oker/100%.toml",
    state="/var/lib/stoker",
    stoker=("/opt/sto ker/bin/stoker",),
    user="llm",
    environment={"PATH": "/opt/a b/bin:/usr/bin", "X": '$HOME %h "q" \\'},
)
NASTY = ("a b", "$HOME ${HOME} $$", "100% %h", 'say "hi"', "it's", "back\\slash\\", ";", "#", "", "{{ x }}", "模 é")
SERVE = Serve(
    name="fast",
    engine="openai",
    driver=Driver.SYSTEMD,
    unit="stoker-serve-fast.service",
    cmd=(sys.executable, "--port", "{port}", "--api-key={key}", *NASTY),
    port=8101,
    directory="/srv/st oker",
    conflicts=("vllm", "unit:ollama.service", "container:vllm-fast", "web.socket", "no unit!"),
    env={"API_TOKEN": "hunter2"},
    stop_grace=7.5,
)


def texts(site: InstallSite = SITE, serves: Sequence[Serve] = (SERVE,)) -> dict[str, str]:
    return units.render(site, serves)


def test_a_serves_unit_runs_exactly_its_command_with_the_key_of_each_start() -> None:
    text = texts()["stoker-serve-fast.service"]
    [line] = [value for key, value in reader.read_unit(text)["Service"] if key == "ExecStart"]
    argv = reader.command(line, {units.KEY_VARIABLE: "k3y", "HOME": "/wrong"})
    assert argv == [sys.executable, "--port", "8101", "--api-key=k3y", *NASTY]
    assert reader.setting(text, "Service", "WorkingDirectory") == "/srv/st oker"
    assert reader.setting(text, "Service", "EnvironmentFile") == "/var/lib/stoker/units/fast.env"
    assert reader.setting(text, "Service", "User") == "llm"
    assert reader.setting(text, "Service", "TimeoutStopSec") == "8"
    assert reader.setting(text, "Unit", "Conflicts") == "vllm.service ollama.service web.socket"
    assert "hunter2" not in "".join(texts().values())


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:80"), ("localhost", "127.0.0.1:80"), ("::1", "[::1]:80"), ("0.0.0.0", "0.0.0.0:80")],
)
def test_systemd_listens_where_the_front_door_would(host: str, address: str) -> None:
    text = texts(replace(SITE, host=host, port=80))["stoker.socket"]
    assert reader.setting(text, "Socket", "ListenStream") == address


def test_a_host_that_is_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="write the address"):
        texts(replace(SITE, host="gpu-box"))


def test_only_the_front_door_starts_at_boot() -> None:
    """So a reboot stays with one model: the front door starts what was resident."""
    found = {name: "Install" in reader.read_unit(text) for name, text in texts().items()}
    assert found == {
        "stoker.service": True,
        "stoker.socket": True,
        "stoker-watchdog.service": False,
        "stoker-watchdog.timer": False,
        "stoker-serve-fast.service": False,
    }


def test_serves_outlive_the_front_doors_unit() -> None:
    text = texts(serves=[replace(SERVE, stop_grace=20.0)])["stoker.service"]
    assert {key: reader.setting(text, "Service", key) for key in ("KillMode", "Delegate", "OOMPolicy")} == {
        "KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue",
    }  # fmt: skip
    [line] = [value for key, value in reader.read_unit(text)["Service"] if key == "ExecStart"]
    assert reader.command(line, {}) == [*SITE.stoker, "up", "--config", SITE.config, "--leave-running", "--resume"]
    assert int(reader.setting(text, "Service", "TimeoutStopSec") or 0) > SITE.shutdown_grace + 20
    given = [reader.specifiers(reader.words(v)[0]) for k, v in reader.read_unit(text)["Service"] if k == "Environment"]
    assert given == [f"{name}={value}" for name, value in SITE.environment.items()]
    assert reader.setting(text, "Service", "EnvironmentFile") == "-/srv/st oker/stoker.env"


def test_the_watchdog_starts_a_front_door_that_failed_and_not_one_that_was_stopped() -> None:
    found = texts()
    assert reader.setting(found["stoker-watchdog.service"], "Unit", "Wants") == "stoker.service"
    assert reader.setting(found["stoker-watchdog.timer"], "Unit", "PartOf") == "stoker.service"
    assert reader.setting(found["stoker.service"], "Unit", "Wants") == "stoker-watchdog.timer"
    [line] = [
        value for key, value in reader.read_unit(found["stoker-watchdog.service"])["Service"] if key == "ExecStart"
    ]
    assert reader.command(line, {})[1:] == ["watchdog", "--once", "--config", SITE.config]


def test_units_of_a_user_name_no_user_and_nothing_that_only_the_system_has() -> None:
    for name, text in texts(replace(SITE, user=None)).items():
        assert "User=" not in text, name
        assert "network-online" not in text, name
        assert "multi-user" not in text, name


def test_the_rule_names_the_user_and_the_units_and_nothing_more() -> None:
    text = units.rule(replace(SITE, user='a"b'), ["a.service", "b.service"])
    assert 'subject.user == "a\\"b" &&' in text
    listed = re.search(r"(\[.*\])\.indexOf", text)
    assert listed is not None
    assert json.loads(listed[1]) == ["a.service", "b.service"]
    assert units.origin(text) is Origin.OURS


def test_a_change_by_hand_is_seen_and_whose_it_is() -> None:
    for text in texts().values():
        assert units.origin(text) is Origin.OURS
        assert units.source(text) == SITE.config
        assert units.origin(f"{text}Nice=1\n") is Origin.CHANGED
        assert units.origin(text.replace(SITE.config, "/other.toml", 1)) is Origin.CHANGED
    assert units.origin("[Service]\nExecStart=/x\n") is Origin.FOREIGN
    assert units.source("[Service]\n") is None


@pytest.mark.parametrize("name", ["fast", "../fast.service", "a b.service", "fast.timer", None])
def test_a_name_that_no_service_can_have_is_refused(name: str | None) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a unit"):
        texts(serves=[replace(SERVE, unit=name)])


def test_a_line_break_in_an_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        texts(serves=[replace(SERVE, extra_args=("a\nExecStart=/bin/sh",))])


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt-get install systemd"
)
@pytest.mark.parametrize("user", ["root", None])
def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path, user: str | None) -> None:
    (tmp_path / "st oker").mkdir()
    program = tmp_path / "st oker" / "stoker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    site = replace(SITE, user=user, stoker=(str(program),), config=str(tmp_path / "st oker" / "100%.toml"))
    found = texts(site, [replace(SERVE, directory=str(tmp_path / "st oker"))])
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    scope = ["--user"] if user is None else []
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *scope, *(str(tmp_path / name) for name in found)],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "XDG_RUNTIME_DIR": str(tmp_path)},
        timeout=30,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    broken = tmp_path / "broken.service"
    broken.write_text("[Service]\nExecStart=relative\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(broken)], capture_output=True, text=True, timeout=30
    )
    assert "relative" in done.stderr, "it does look"
