"""Slots with sets of serves that may be loaded at the same time."""

from __future__ import annotations

import json

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


IDLE = '[slots.gpu0]\ntogether = [["a", "c"], ["b", "c"]]\nidle_serve = "c"\nidle_serve_after = "5m"'


@story
async def test_the_idle_serve_and_what_stopping_costs_are_shown() -> None:
    with running(serve("a", evict_cost=50.5), serve("b"), serve("c"), slots=IDLE) as plane:
        assert (await ask(plane, "a")).status == 200
        slot = plane.status()["slots"][0]
        assert (slot["idle_serve"], slot["idle_serve_after"]) == ("c", 300.0)
        assert (slot["evict_costs"]["a"], slot["evict_costs"]["b"]) == (50.5, 1.0)
        listed = plane.run("slot", "list", "--json").stdout
        assert json.loads(listed)[0]["evict_costs"] == slot["evict_costs"]
        text = plane.run("slot", "list").stdout
        assert "c after 5m 00s" in text
        assert "a 50.5, b 1" in text
        assert "c after 5m 00s" in plane.run("slot", "status").stdout
        dry = plane.run("slot", "switch", "b", "--dry-run").stdout
        assert "drain a (0 in flight, at most its slot's drain_timeout), then stop it" in dry
        assert "evict cost 50.5" in dry
        assert "gpu0 does not return to c, its idle_serve, before a request loads another serve" in dry
        down = plane.run("serves", "down", "a", "--dry-run").stdout
        assert "gpu0 does not return to c, its idle_serve, before a request loads another serve" in down


def test_a_slot_without_them_shows_neither() -> None:
    with running(serve("a"), serve("b")) as plane:
        slot = plane.status()["slots"][0]
        assert (slot["idle_serve"], slot["idle_serve_after"], slot["evict_costs"]) == (None, None, {})
        shown = plane.run("slot", "list").stdout
        assert "IDLE SERVE" not in shown
        assert "EVICT COSTS" not in shown


def test_an_unknown_name_in_a_set_is_told_with_its_place() -> None:
    with running(serve("a"), serve("b"), slots='[slots.gpu0]\ntogether = [["a", "bb"]]', started=False) as plane:
        done = plane.run("config", "check")
        assert done.returncode != 0
        assert "key 'slots.gpu0.together[#1]': there is no serve 'bb' in slot 'gpu0'; did you mean 'b'" in done.stderr
