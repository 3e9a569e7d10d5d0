"""A cloud that is written as a tier: it answers by the tier's name, to those who may go there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, free_port, running, serve

from stoker_lab.testing.client import RawReply
from stoker_lab.testing.script.script import Script

KEYS = {"K_OPEN": "key-open-1-of-16-letters", "K_HERE": "key-here-2-of-16-letters", "CLOUD": "sk-cloud-3"}
DOOR = """keys = [
  { name = "open", value = "env:K_OPEN" },
  { name = "here", value = "env:K_HERE", cloud = false },
]"""


def tier(port: int, name: str = "cloud") -> str:
    return f"""[[tier]]
name = "{name}"
base_url = "http://127.0.0.1:{port}/v1"
cloud = true
model = "vendor/big"
key = "env:CLOUD"
cost = {{ input = 3.0, output = 15.0 }}"""


@asynccontextmanager
async def cloud() -> AsyncIterator[int]:
    """The port of somebody else's model server."""
    port = free_port()
    command = Script(id="vendor/big", api_key=KEYS["CLOUD"]).command(port)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield port
    finally:
        process.terminate()
        await process.communicate()


async def by(plane: Plane, key: str, model: str) -> RawReply:
    return await ask(plane, model, headers=(("authorization", f"Bearer {KEYS[key]}"),))


@story
async def test_a_cloud_tier_answers_by_its_name_and_only_to_keys_that_may_go_there() -> None:
    """With the cloud's own key and its own word for the model; to others it is not there at all."""
    async with cloud() as port:
        with running(serve("a", slot=None), tier(port), front_door=DOOR, environment=KEYS) as plane:
            assert (await by(plane, "K_OPEN", "cloud")).status == 200
            assert [(one["name"], one["driver"]) for one in plane.status()["serves"]] == [
                ("a", "process"), ("cloud", "external"),
            ]  # fmt: skip
            [asked] = plane.received("cloud", "/v1/chat/completions")
            assert ["authorization", "Bearer sk-cloud-3"] in asked["headers"]
            for model in ("cloud", "vendor/big"):
                refused = await by(plane, "K_HERE", model)
                assert (refused.status, refused.json()["error"]["code"]) == (404, "unknown_model")
            assert (await by(plane, "K_OPEN", "vendor/big")).status == 404
            assert (await by(plane, "K_HERE", "a")).status == 200


@story
async def test_a_reload_brings_and_takes_cloud_tiers() -> None:
    async with cloud() as port:
        with running(serve("a", slot=None), environment=KEYS) as plane:
            before = plane.config.read_text()
            assert (await ask(plane, "cloud")).status == 404
            plane.write(f"{before}\n{tier(port)}\n")
            assert plane.admin("reload")[1]["added"] == ["cloud"]
            assert (await ask(plane, "cloud")).status == 200
            plane.write(f"{before}\n{tier(port, 'sky')}\n")
            assert plane.admin("reload")[1]["removed"] == ["cloud"]
            assert [(await ask(plane, name)).status for name in ("cloud", "sky")] == [404, 200]
            plane.write(f"{before}\n{tier(port).replace('cost', '# cost')}\n")
            status, answer = plane.admin("reload")
            assert status == 400
            assert "a cloud needs `cost`" in str(answer)
            assert (await ask(plane, "sky")).status == 200
