"""A slot of another Stoker: loaded there by that Stoker's rules, used from here, and let go."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, config, poll, running, serve, toml, until

from stoker_lab.testing.script.script import Script

KEYS = """keys = [
  { name = "front", value = "file:front.key", scopes = ["inference", "observe", "admin"] },
  { name = "narrow", value = "file:narrow.key", scopes = ["inference"] },
]"""


def boxes(*others: Plane, slot: str = "gpu0", names: tuple[str, ...] = ("big",), **keys: Any) -> str:
    """Serves in the slots of these boxes, and of `here` a place of this machine as well."""
    tables = [
        "\n".join(
            (
                f"[boxes.box{number}]",
                f'url = "http://127.0.0.1:{plane.port}"',
                *(f"{key} = {toml(value)}" for key, value in keys.items()),
            )
        )
        for number, plane in enumerate(others, 2)
    ]
    places = [f"box{number}:{slot}" for number in range(2, 2 + len(others))]
    serves = [f"[[serve]]\nname = {toml(name)}\nslots = {toml(places)}\nparallel = 8" for name in names]
    return "\n\n".join([*tables, *serves])


def box_of(plane: Plane) -> dict[str, Any]:
    return dict(plane.status()["boxes"][0])


def kinds(plane: Plane) -> list[str]:
    return [event["kind"] for event in plane.status()["events"]]


@story
async def test_a_serve_is_loaded_there_used_from_here_and_let_go() -> None:
    with running(serve("big"), serve("other")) as there, running(boxes(there)) as here:
        assert here.serve("big")["state"] == "stopped"
        reply = await ask(here, "big")
        assert (reply.status, reply.header("x-stoker-serve")) == (200, "big")
        assert there.serve("big")["state"] == here.serve("big")["state"] == "ready"
        shown = here.run("slot", "list").stdout
        assert "box2:gpu0" in shown
        assert box_of(here)["slots"] == {"gpu0": ["big"]}
        assert here.run("serves", "down", "big").returncode == 0
        assert there.serve("big")["state"] == "stopped"


@story
async def test_what_the_other_one_unloads_for_its_own_users_is_stopped_here_and_is_no_failure() -> None:
    with running(serve("big"), serve("other")) as there, running(boxes(there)) as here:
        assert (await ask(here, "big")).status == 200
        assert (await ask(there, "other")).status == 200
        await until(lambda: here.serve("big")["state"] == "stopped", "it is seen that it was unloaded there")
        seen = here.serve("big")
        assert (seen["last_error"], seen["backoff"]) == (None, None)
        assert "unloaded_there" in kinds(here)
        assert "exited" not in kinds(here)
        assert (await ask(here, "big")).status == 200
        assert there.serve("other")["state"] == "stopped"
