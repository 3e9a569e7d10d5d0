"""`--dry-run` names whom the scheduler stops, and `serves up` loads every serve that fits."""

from __future__ import annotations

import json
from typing import Any

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve

SLOT = '[slots.gpu0]\nmemory = "14GiB"'


def planned(plane: Plane, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(plane.run(*words, "--dry-run", "--json").stdout))


@story
async def test_in_a_slot_with_memory_the_dry_run_names_whom_the_switch_stops() -> None:
    with running(
        serve("pinned", memory="4GiB", keep_loaded=True), serve("old", memory="4GiB"), serve("new", memory="4GiB"),
        serve("big", memory="6GiB"), serve("huge", memory="12GiB"), slots=SLOT,
    ) as plane:  # fmt: skip
        assert (await ask(plane, "old")).status == 200
        assert (await ask(plane, "new")).status == 200
        [plan] = planned(plane, "slot", "switch", "big")
        [drain] = [step for step in plan["steps"] if step.startswith("drain ")]
        assert drain.startswith("drain old (")
        assert plan["victims"] == ["old"]
        [plan] = planned(plane, "slot", "switch", "huge")
        assert plan["steps"][0].startswith("refuse: serve 'huge' needs 12.0 GiB"), "the pin would have to go"
        assert {one["name"] for one in plane.status()["serves"] if one["state"] == "ready"} == {"pinned", "old", "new"}
        assert plane.run("slot", "switch", "big").returncode == 0
        assert {one["name"] for one in plane.status()["serves"] if one["state"] == "ready"} == {"pinned", "new", "big"}


@story
async def test_serves_up_loads_every_serve_that_fits_and_stops_none() -> None:
    with running(
        serve("one", memory="4GiB"), serve("two", memory="4GiB"), serve("three", memory="4GiB"),
        serve("four", memory="4GiB"), serve("alone", slot=None), slots=SLOT,
    ) as plane:  # fmt: skip
        assert [plan["serve"] for plan in planned(plane, "serves", "up")] == ["one", "two", "three", "alone"]
        done = plane.run("serves", "up")
        assert done.returncode == 0, done.stderr
        ready = {one["name"] for one in plane.status()["serves"] if one["state"] == "ready"}
        assert ready == {"one", "two", "three", "alone"}
        assert "nothing to load" in plane.run("serves", "up").stdout
        assert {one["name"] for one in plane.status()["serves"] if one["state"] == "ready"} == ready


def test_without_a_running_stoker_it_prints_what_it_would_type() -> None:
    slots = f"{SLOT}\n[slots.gpu1]"
    with running(
        serve("one", memory="10GiB"), serve("two", memory="10GiB"), serve("b", slot="gpu1"), slots=slots, started=False
    ) as plane:
        done = plane.run("serves", "up", "--dry-run", "--json")
        plans = json.loads(done.stdout)
        assert [plan["serve"] for plan in plans] == ["one", "b"]
        for plan in plans:
            assert plan["steps"][0].startswith("fail: Stoker does not run here; start it first: stoker up")
            assert "stoker_lab.testing" in plan["command"]
        assert done.returncode == 1
