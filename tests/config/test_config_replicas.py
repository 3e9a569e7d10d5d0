"""A serve with several slots: what the file may say, and what the fleet is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.app.configuration import placed_serves, placed_slots
from stoker.cli.console.errors import UsageError
from stoker.cli.console.installation import Installation
from stoker.config.effective import to_toml
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError

Loaded = Callable[[str], Settings]
SLOTS = "[slots.gpu0]\ndevices = [0]\n[slots.gpu1]\ndevices = [1]\n"
SERVE = '[[serve]]\nname = "fast"\nengine = "openai"\ncmd = "x {port}"\nslots = ["gpu0", "gpu1"]\n'


def test_each_slot_gets_a_replica_with_its_devices(loaded: Loaded) -> None:
    settings = loaded(SLOTS + SERVE + 'aliases = ["gpt-4o"]\nreplicas = 2\n')
    (serve,) = settings.serves
    assert (serve.name, serve.slots, serve.replicas) == ("fast", ("gpu0", "gpu1"), 2)
    replicas = placed_serves(settings)
    assert [(one.name, one.slot, one.replica_of, one.served_name) for one in replicas] == [
        ("fast@gpu0", "gpu0", "fast", "fast"), ("fast@gpu1", "gpu1", "fast", "fast"),
    ]  # fmt: skip
    assert [one.env["CUDA_VISIBLE_DEVICES"] for one in replicas] == ["0", "1"]


def test_one_slot_in_the_list_is_that_slot(loaded: Loaded) -> None:
    settings = loaded(SLOTS + SERVE.replace(', "gpu1"', ""))
    assert [(one.name, one.slot) for one in placed_serves(settings)] == [("fast", "gpu0")]
    assert placed_slots(settings) == list(settings.slots)


def test_keep_loaded_holds_as_many_as_may_run(loaded: Loaded) -> None:
    settings = loaded(SLOTS + SERVE + "keep_loaded = true\n")
    assert [one.keep_loaded for one in placed_serves(settings)] == [True, False]


def test_a_minimum_is_kept_in_any_of_its_slots(loaded: Loaded) -> None:
    settings = loaded(SLOTS + SERVE + "replicas = { min = 1, max = 2 }\n")
    assert [(one.keep_loaded, one.min_replicas, one.replicas) for one in placed_serves(settings)] == [(False, 1, 2)] * 2
    assert "replicas = { min = 1, max = 2 }" in to_toml(settings)


def test_a_slots_idle_serve_means_the_replica_there(loaded: Loaded) -> None:
    settings = loaded(SLOTS.replace("devices = [0]", 'devices = [0]\nidle_serve = "fast"') + SERVE)
    assert [slot.idle_serve for slot in placed_slots(settings)] == ["fast@gpu0", None]


def test_a_command_finds_the_serve_by_the_name_of_a_replica(loaded: Loaded, tmp_path: Path) -> None:
    installation = Installation(tmp_path, tmp_path, "stoker up", loaded(SLOTS + SERVE))
    assert installation.serve("fast@gpu1").name == "fast"
    with pytest.raises(UsageError, match="there is no serve 'fast@gpu2'"):
        installation.serve("fast@gpu2")


HUGE = SERVE.replace('"fast"', '"huge"').replace('slots = ["gpu0", "gpu1"]', 'slot = "gpu0 + gpu1"')


def test_a_place_may_have_several_slots_and_all_their_devices(loaded: Loaded) -> None:
    settings = loaded(SLOTS + HUGE)
    (huge,) = placed_serves(settings)
    assert (huge.name, huge.slot, huge.env["CUDA_VISIBLE_DEVICES"]) == ("huge", "gpu0+gpu1", "0,1")
    slot = settings.slot("gpu0+gpu1")
    assert slot is not None
    assert (slot.name, slot.devices, slot.memory) == ("gpu0+gpu1", ("0", "1"), None)


def test_so_may_each_place_of_several(loaded: Loaded) -> None:
    settings = loaded(SLOTS + "[slots.gpu2]\n" + SERVE.replace('"gpu1"]', '"gpu1+gpu2"]'))
    assert [(one.name, one.slot) for one in placed_serves(settings)] == [
        ("fast@gpu0", "gpu0"), ("fast@gpu1+gpu2", "gpu1+gpu2"),
    ]  # fmt: skip


def test_its_memory_is_that_of_its_slots_together_and_each_bears_a_part(loaded: Loaded) -> None:
    roomy = SLOTS.replace("devices", 'memory = "24GiB"\ndevices')
    settings = loaded(roomy + HUGE + 'memory = "40GiB"\n')
    slot = settings.slot("gpu0+gpu1")
    assert slot is not None
    assert slot.memory == 48 * 2**30


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HUGE.replace("gpu1", "gpu7"), "there is no slot 'gpu7'; did you mean"),
        (HUGE.replace("+ gpu1", "+ gpu0"), "'gpu0+gpu0' names a slot twice; name each slot of a place once"),
        (HUGE.replace("+ gpu1", "+"), "is not a valid name"),
        (
            SERVE.replace('["gpu0", "gpu1"]', '["gpu0+gpu1", "gpu1+gpu0"]'),
            "names a slot twice; each replica has a slot",
        ),
        (
            '[slots.gpu2]\nbaseline = "huge"\n' + HUGE.replace("gpu1", "gpu2"),
            "'gpu0+gpu2'; name a serve that takes slot",
        ),
        (
            '[slots.gpu2]\nidle_serve = "huge"\n' + HUGE.replace("gpu1", "gpu2"),
            "'huge' takes several slots, 'gpu0+gpu2'; name a serve that takes slot 'gpu2' alone",
        ),
        (
            '[slots.gpu2]\nmemory = "8GiB"\n' + HUGE.replace("gpu1", "gpu2") + 'memory = "20GiB"\n',
            "serve 'huge' needs 10GiB of its 20GiB and slot 'gpu2' has 8GiB",
        ),
        (
            HUGE
            + "keep_loaded = true\n"
            + HUGE.replace("huge", "small").replace(" + gpu1", "")
            + "keep_loaded = true\n",
            "serves 'huge' and 'small' have `keep_loaded` in slot 'gpu0'",
        ),
        (SERVE.replace("gpu1", "gpu7"), "there is no slot 'gpu7'; did you mean"),
        (SERVE.replace("gpu1", "gpu0"), "names a slot twice; each replica has a slot of its own"),
        (SERVE + "replicas = 3\n", "is 3, but `slots` has 2; add slots, or lower it"),
        (SERVE + "replicas = { max = 3 }\n", "is 3, but `slots` has 2; add slots, or lower it"),
        (SERVE + "replicas = 0\n", "must be from 1 to 64"),
        (SERVE + "replicas = true\n", "write a whole number, or { min = 1, max = 3 }"),
        (SERVE + "replicas = { min = 2 }\n", "has no `max`; write a whole number, or { min = 1, max = 3 }"),
        (SERVE + "replicas = { min = 2, max = 1 }\n", "the `max` must not be smaller"),
        (SERVE + "replicas = { min = 1, max = 2, most = 3 }\n", "has an unknown key 'most'"),
        (SERVE + "keep_loaded = true\nreplicas = { min = 1, max = 2 }\n", "holds its first slots for it; remove one"),
        (
            SERVE.replace('slots = ["gpu0", "gpu1"]', 'slot = "gpu0"\nreplicas = { min = 1, max = 1 }'),
            "needs several `slots`; with one, write `keep_loaded = true`",
        ),
        (SERVE.replace('slots = ["gpu0", "gpu1"]', "replicas = 2"), 'needs several slots to be in: `slots = ["gpu0"'),
        (SERVE + 'slot = "gpu0"\n', "cannot be used with several `slots`: remove it"),
        (SERVE + "port = 4000\n", "cannot be used with several `slots`: each replica gets a free one"),
        (SERVE + 'stop = "docker stop x"\n', "the command could stop another replica"),
        (SERVE.replace('cmd = "x {port}"', 'container = "x"'), "a container or a unit is one process; give one `slot`"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(loaded: Loaded, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(SLOTS + text)
    assert problem in refused.value.message


@pytest.mark.parametrize("process", ['container = "x"', 'driver = "systemd"\ncmd = "x {port}"'])
@pytest.mark.parametrize("port", ["", "port = 4000\n"])
@pytest.mark.parametrize("last", ["gpu1", "gpu1+gpu2"])
def test_a_container_or_a_unit_with_several_places_gets_one_complaint(
    loaded: Loaded, process: str, port: str, last: str
) -> None:
    """A port, or none, would not help it."""
    serve = SERVE.replace('cmd = "x {port}"', process).replace("gpu1", last)
    with pytest.raises(ConfigError) as refused:
        loaded(SLOTS + "[slots.gpu2]\n" + serve + port)
    (problem,) = refused.value.problems
    assert "a container or a unit is one process" in problem


def test_each_slot_with_memory_has_to_hold_it(loaded: Loaded) -> None:
    budget = SLOTS.replace("devices = [1]", 'devices = [1]\nmemory = "4GiB"')
    with pytest.raises(ConfigError, match="slot 'gpu1' has a memory budget, so serve 'fast' needs `memory`"):
        loaded(budget + SERVE)
    with pytest.raises(ConfigError, match="serve 'fast' needs 8GiB and slot 'gpu1' has 4GiB"):
        loaded(budget + SERVE + 'memory = "8GiB"\n')
