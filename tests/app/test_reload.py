"""A reload: what changed is found by comparing, and every part follows the new configuration or none does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.app.program import SERVES, Assembly, assembled, settings_in

from stoker.app.configuration import Configuration
from stoker.app.reload import ConfigurationChanges, Reloader, compare
from stoker.config.changes import changed_settings
from stoker.domain.access import ListenSettings, Settings, WarmPool
from stoker.domain.errors import ClientError, ConfigError
from stoker.domain.gate import Alias
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret, Serve

HERE = Path("/nowhere")
NOTHING = ConfigurationChanges((), (), (), False, ())


def configuration(settings: Settings) -> Configuration:
    return Configuration(settings, {}, 0)


OLD = settings_in(HERE)


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        (OLD, NOTHING),
        (replace(OLD, serves=(SERVES[0],)), replace(NOTHING, removed=("clever",), settings=("serve[clever]",))),
        (replace(OLD, serves=(*SERVES, Serve("new"))), replace(NOTHING, added=("new",), settings=("serve[new]",))),
        (
            replace(OLD, serves=(replace(SERVES[0], port=9), SERVES[1])),
            replace(NOTHING, changed=("fast",), settings=("serve[fast].port",)),
        ),
        (replace(OLD, front_door=ListenSettings(port=1)), replace(NOTHING, settings=("front_door.port",))),
    ],
    ids=["nothing", "removed", "added", "changed", "port"],
)
def test_what_changed_is_named(new: Settings, changes: ConfigurationChanges) -> None:
    assert compare(configuration(OLD), configuration(new), changed_settings(OLD, new)) == changes


def reloader(program: Assembly) -> Reloader:
    return Reloader(program.active, program.read, program.parts)


@assembled()
async def test_every_part_follows_the_new_configuration(program: Assembly) -> None:
    key = Key("me", Secret("k-me", "env:K"), Scope.INFERENCE)
    door = replace(program.settings.front_door, auth=True, keys=(key,), body_limit=1000)
    aliases = (Alias("coder", "clever"),)
    program.next_settings = replace(
        program.settings, front_door=door, aliases=aliases, serves=(*SERVES, Serve("new")), warm=WarmPool(memory=5)
    )
    answer = await reloader(program).reload()
    assert answer == {
        "changed": [], "added": ["new"], "removed": [], "routing": False, "lapsed": [], "ended": [], "problems": [],
        "warnings": [],
        "settings": ["front_door.body_limit", "front_door.keys[me]", "front_door.auth", "serve[new]", "warm.memory",
                     "alias.coder.serve"],
    }  # fmt: skip
    parts = program.parts
    assert program.active.settings is program.next_settings
    assert parts.gateway.flow.settings.front_door is door
    assert parts.gateway.flow.settings.names.resolve("coder", lambda serve: True).name == "clever"
    assert parts.fleet.conductor.scheduler.serves.keys() == {"fast", "clever", "new"}
    assert parts.fleet.warm.statistics().budget == 5
    with pytest.raises(ClientError, match="API key is missing"):
        parts.access.control.admit({b"host": b"localhost"}, is_local=False)


@assembled()
async def test_a_broken_file_changes_nothing(program: Assembly) -> None:
    program.next_settings = None
    before = program.active.current
    with pytest.raises(ConfigError, match="it is broken"):
        await reloader(program).reload()
    assert program.active.current is before


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"port": 1}, "front_door.port takes effect only with a restart: stop Stoker and start it again"),
        ({"prefixes": ("/x",)}, "front_door.prefixes takes effect only with a restart: type `stoker up --replace`"),
        ({"shutdown_grace": 1.0}, "front_door.shutdown_grace takes effect only with a restart"),
    ],
)
def test_a_setting_that_needs_a_restart_refuses_the_whole_reload(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    @assembled()
    async def refused(program: Assembly) -> None:
        before = program.active.current
        door = replace(program.settings.front_door, **changes)
        program.next_settings = replace(program.settings, front_door=door, serves=(*SERVES, Serve("new")))
        with pytest.raises(ConfigError, match=problem):
            await reloader(program).reload()
        assert program.active.current is before
        assert "new" not in program.parts.fleet.conductor.scheduler.serves

    refused(tmp_path)


@assembled()
async def test_when_a_part_fails_every_part_has_the_configuration_before_again(program: Assembly) -> None:
    before = program.active.settings

    program.next_settings = replace(program.settings, serves=(*SERVES, Serve("new")))
    watchdog = type(program.parts.watchdog)
    with mock.patch.object(watchdog, "configure", side_effect=[OSError("broken"), None]), pytest.raises(OSError):
        await reloader(program).reload()
    assert program.active.settings is before
    assert program.parts.fleet.conductor.scheduler.serves.keys() == {"fast", "clever"}
    assert program.parts.gateway.flow.settings.front_door is before.front_door


@assembled()
async def test_a_dry_run_answers_what_would_change_and_changes_nothing(program: Assembly) -> None:
    before = program.active.current
    program.next_settings = replace(program.settings, serves=(*SERVES, Serve("new")))
    would = await reloader(program).reload(dry_run=True)
    assert would["added"] == ["new"]
    assert program.active.current is before
    assert "new" not in program.parts.fleet.conductor.scheduler.serves
    assert await reloader(program).reload() == would
    assert (await reloader(program).reload(dry_run=True))["settings"] == []


@assembled()
async def test_without_a_file_there_is_nothing_to_reload(program: Assembly) -> None:
    with pytest.raises(ClientError, match=r"^this Stoker runs without a configuration file"):
        await Reloader(program.active, None, program.parts).reload()


@assembled(warm=WarmPool())
async def test_the_automatic_budget_of_the_warm_pool_stays_as_it_was_at_the_start(program: Assembly) -> None:
    before = program.active.current.warm_budget
    await reloader(program).reload()
    assert program.active.current.warm_budget == before
    assert before > 0


@assembled()
async def test_the_watchdog_forgets_a_serve_that_was_changed(program: Assembly) -> None:
    watchdog = program.parts.watchdog
    for name in ("fast", "clever"):
        watchdog.exited(name, "ended by SIGKILL")
    program.next_settings = replace(program.settings, serves=(replace(SERVES[0], port=9), SERVES[1]))
    await reloader(program).reload()
    assert [watchdog.report(name)["restarts"] for name in ("fast", "clever")] == [0, 1]
