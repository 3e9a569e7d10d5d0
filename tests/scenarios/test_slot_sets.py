"""Slots with sets of serves that may be loaded at the same time."""

from __future__ import annotations

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve

SETS = '[slots.gpu0]\ntogether = [["a", "c"], ["b", "c"]]'


def ready(plane: Plane) -> set[str]:
    return {one["name"] for one in plane.status()["serves"] if one["state"] == "ready"}


@story
async def test_serves_of_one_set_are_loaded_at_the_same_time_and_others_swap() -> None:
    with running(serve("a"), serve("b"), serve("c"), slots=SETS) as plane:
        for name in ("a", "c"):
            assert (await ask(plane, name)).status == 200
        assert ready(plane) == {"a", "c"}
        dry = plane.run("slot", "switch", "b", "--dry-run").stdout
        assert "drain a (" in dry
        assert "drain c (" not in dry
        assert (await ask(plane, "b")).status == 200
        assert ready(plane) == {"b", "c"}
        assert plane.starts("c") == 1
        assert "a+c or b+c" in plane.run("slot", "list").stdout


@story
async def test_a_reload_changes_the_sets_without_touching_what_runs() -> None:
    with running(serve("a"), serve("b"), serve("c"), slots=SETS) as plane:
        for name in ("a", "c"):
            assert (await ask(plane, name)).status == 200
        plane.write(plane.config.read_text().replace('together = [["a", "c"], ["b", "c"]]', 'together = [["a", "b"]]'))
        assert plane.run("reload").returncode == 0
        assert ready(plane) == {"a", "c"}
        assert (await ask(plane, "b")).status == 200
        assert ready(plane) == {"a", "b"}
        assert plane.starts("a") == 1


def test_an_unknown_name_in_a_set_is_told_with_its_place() -> None:
    with running(serve("a"), serve("b"), slots='[slots.gpu0]\ntogether = [["a", "bb"]]', started=False) as plane:
        done = plane.run("config", "check")
        assert done.returncode != 0
        assert "key 'slots.gpu0.together[#1]': there is no serve 'bb' in slot 'gpu0'; did you mean 'b'" in done.stderr
