"""A slot of another Stoker: loaded there by that Stoker's rules, used from here, and let go."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, config, running, serve, toml, until

from stoker_lab.testing.script.script import Script

KEYS = """keys = [
  { name = "front", value = "file:front.key", scope = "admin" },
  { name = "narrow", value = "file:narrow.key", scope = "inference" },
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


@story
async def test_another_address_of_the_box_is_followed_without_a_restart() -> None:
    with running(serve("big")) as first, running(serve("big")) as second, running(boxes(first)) as here:
        assert (await ask(here, "big")).status == 200
        here.write(config(boxes(second)))
        assert here.run("reload").returncode == 0
        await until(lambda: here.serve("big")["state"] == "stopped", "it is let go")
        assert (await ask(here, "big")).status == 200
        assert second.serve("big")["state"] == "ready"


@story
async def test_a_request_waits_there_for_its_turn_as_any_other() -> None:
    """The other one's users count: what they wait for is loaded first, and nobody is cut off."""
    with running(serve("big"), serve("other")) as there, running(boxes(there)) as here:
        assert (await ask(there, "other")).status == 200
        long = asyncio.create_task(ask(there, "other", "script: first_event_after=1.5"))
        await until(lambda: there.serve("other")["in_flight"], "it is answered")
        asked = asyncio.create_task(ask(here, "big"))
        await until(lambda: here.serve("big")["step"], "it says what it waits for")
        assert here.serve("big")["step"] == "waits until box2 has loaded it"
        assert [(await one).status for one in (long, asked)] == [200, 200]


@story
async def test_a_refusal_there_is_a_refusal_here_with_its_reason_and_its_time() -> None:
    with running(serve("big")) as there, running(boxes(there)) as here:
        assert there.run("pause", "gpu0", "--reason", "a game").returncode == 0
        reply = await ask(here, "big")
        assert reply.status == 503
        assert int(reply.header("retry-after") or 0) > 0
        error = reply.json()["error"]
        assert error["code"] == "box_busy"
        assert "a game" in error["message"]
        assert there.run("resume", "gpu0").returncode == 0


@story
async def test_a_start_that_is_given_up_leaves_nothing_loaded_there() -> None:
    with running(serve("big", Script(ready_after=3.0)), serve("other")) as there, running(boxes(there)) as here:
        asked = asyncio.create_task(ask(here, "big"))
        await until(lambda: there.serve("big")["state"] == "starting", "it starts there")
        assert here.run("serves", "down", "big").returncode == 0
        assert (await asked).status == 503
        await until(lambda: there.serve("big")["state"] == "stopped" and there.is_settled(), "it is given up there")


@story
async def test_a_box_that_is_lost_again_and_again_gets_no_serve_parked() -> None:
    with running(serve("big")) as there, running(boxes(there), "[watchdog]\nrestarts = 1") as here:
        for _ in range(3):
            await until(lambda: not here.serve("big")["backoff"], "it may be started again")
            assert (await ask(here, "big")).status == 200
            there.signal(signal.SIGKILL)
            await asyncio.to_thread(there.exit_code)
            await until(lambda: here.serve("big")["state"] == "stopped", "it is seen that it is lost")
            await asyncio.to_thread(there.start)
        assert here.serve("big")["parked"] is None


@story
async def test_a_serve_with_a_place_here_and_one_there() -> None:
    """Both machines may name each other's slots for the same serve: no request goes round."""
    with running(serve("big"), started=False) as one, running(serve("big"), started=False) as two:
        for plane, other in ((one, two), (two, one)):
            here = serve("big", slot=None, slots=["gpu0", "box2:gpu0"], replicas=2)
            plane.write(config(f'[boxes.box2]\nurl = "http://127.0.0.1:{other.port}"', here))
            plane.start()
        assert (await ask(one, "big")).status == 200
        assert one.serve("big@gpu0")["state"] == "ready"
        assert one.run("serves", "up", "big@box2:gpu0").returncode == 0
        assert two.serve("big@gpu0")["state"] == "ready"
        replies = await asyncio.gather(*(ask(one, "big", "script: first_event_after=0.2") for _ in range(6)))
        assert {reply.status for reply in replies} == {200}
        there = two.serve("big@gpu0")["totals"]["requests"]
        assert 0 < there < 6
        assert two.serve("big@box2:gpu0")["totals"]["requests"] == 0


@story
async def test_two_that_would_each_load_it_at_the_other_refuse() -> None:
    with running(serve("big"), started=False) as one, running(serve("big"), started=False) as two:
        for plane, other in ((one, two), (two, one)):
            plane.write(config(boxes(other)))
            plane.start()
        reply = await asyncio.wait_for(ask(one, "big"), 20)
        assert (reply.status, reply.json()["error"]["code"]) == (503, "box_circle")
        assert two.decisions() == []


@story
async def test_a_fallback_that_leads_back_ends() -> None:
    """Each falls back to what the other one serves, and nothing can be loaded: the request ends."""
    broken = serve("big", Script(exit_code=1), fallback="small", fallback_on=["unavailable"])
    with running(broken, started=False) as one, running(broken, started=False) as two:
        for plane, other, (own, far) in ((one, two, ("small", "big")), (two, one, ("big", "small"))):
            here = serve(own, Script(exit_code=1), fallback=far, fallback_on=["unavailable"])
            plane.write(config(here, boxes(other, names=(far,))))
            plane.start()
        reply = await asyncio.wait_for(ask(one, "big"), 25)
        assert reply.status == 503
        assert len(one.decisions()) + len(two.decisions()) < 6


def with_keys(plane: Plane) -> None:
    for name in ("front", "narrow"):
        (plane.directory / f"{name}.key").write_text(f"{name}-key-of-forty-random-looking-characters-0123456789")
    plane.start()


@story
async def test_what_is_wrong_is_said_at_the_first_request_with_what_to_do(tmp_path: Path) -> None:
    with running(serve("big"), front_door=KEYS, started=False) as there:
        with_keys(there)
        front = f"file:{there.directory}/front.key"
        cases: dict[str, tuple[dict[str, Any], str]] = {
            "no key": ({}, "it asks for a key"),
            "wrong key": ({"key": f"file:{tmp_path}/wrong.key"}, "its `key` is not one of that Stoker's"),
            "no scope": ({"key": f"file:{there.directory}/narrow.key"}, "needs scope observe there"),
            "no slot": (
                {"key": front, "slot": "gpu7"},
                "has no slot 'gpu7' (it has gpu0)",
            ),
            "no serve": ({"key": front, "names": ("nope",)}, "has no serve 'nope'"),
        }
        (tmp_path / "wrong.key").write_text("another-key-of-forty-random-looking-characters-0123456789")
        with running(boxes(there), started=False) as here:
            for case, (keys, words) in cases.items():
                here.write(config(boxes(there, **keys)))
                here.start() if here.process is None else here.run("reload")
                name = keys.get("names", ("big",))[0]
                reply = await ask(here, name)
                assert reply.status == 503, case
                assert words in reply.json()["error"]["message"], case
                doctor = here.run("doctor")
                assert words in " ".join(doctor.stdout.split()), (case, doctor.stdout)
            here.write(config(boxes(there, key=front)))
            here.run("reload")
            assert (await ask(here, "big")).status == 200
            assert "front-key" not in here.log("stoker") + str(here.status())


@story
async def test_a_box_that_sleeps_is_woken_by_a_packet_and_one_that_does_not_wake_is_given_up() -> None:
    loop = asyncio.get_running_loop()
    packets: list[bytes] = []

    class Card(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            packets.append(data)

    card, _ = await loop.create_datagram_endpoint(Card, ("127.0.0.1", 0))
    wake = {"mac": "A4-BB-6D-01-23-45", "wake_address": "127.0.0.1", "wake_port": card.get_extra_info("sockname")[1]}
    with running(serve("big"), started=False) as there, running(boxes(there, wake_timeout="20s", **wake)) as here:
        asked = asyncio.create_task(ask(here, "big"))
        await until(lambda: packets, "a packet comes")
        assert packets[0] == b"\xff" * 6 + bytes.fromhex("a4bb6d012345") * 16
        assert (box_of(here)["state"], here.serve("big")["step"]) == ("waking", "waits for box2 to wake")
        assert "box_waking" in kinds(here)
        await asyncio.to_thread(there.start)
        woken = await asked
        assert woken.status == 200
        explained = await asyncio.to_thread(here.run, "explain", str(woken.header("x-request-id")))
        assert "the machine of big woke up" in explained.stdout
        assert (box_of(here)["state"], here.serve("big")["step"]) == ("awake", None)
        there.signal(signal.SIGTERM)
        there.exit_code()
        await until(lambda: here.serve("big")["state"] != "ready", "its end is seen")
        here.write(config(boxes(there, wake_timeout="2s", **wake)))
        here.run("reload")
        reply = await ask(here, "big")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "box_asleep")
        assert "did not wake within 2 s" in reply.json()["error"]["message"]
        assert int(reply.header("retry-after") or 0) > 0
    card.close()
