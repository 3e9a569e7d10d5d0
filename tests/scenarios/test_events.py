"""GET /events of a running Stoker: somebody watches while models take turns."""

from __future__ import annotations

import signal

from tests.gateway.event_reader import Reader
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import PATIENCE, Plane, running, serve

from stoker.domain.merge_patch import apply_patch
from stoker_lab.testing.client import RawClient


async def reader_of(plane: Plane, topics: str, last_id: str = "") -> Reader:
    client = RawClient(plane.port, timeout=PATIENCE)
    await client.connect()
    reader = Reader(client)
    assert await reader.open(topics, last_id) == 200
    return reader


@story
async def test_a_swap_is_seen_live_and_a_reader_that_was_away_misses_nothing() -> None:
    with running(serve("a"), serve("b")) as plane:
        reader = await reader_of(plane, "status,swaps,decisions")
        shown = (await reader.next()).data
        assert (await ask(plane, "a")).status == 200
        happened = {heard.kind: heard.data for heard in [await reader.until_one_of("swap", "decision") for _ in "12"]}
        assert [happened[kind]["serve"] for kind in ("swap", "decision")] == ["a", "a"]
        await reader.client.close()
        assert (await ask(plane, "b")).status == 200
        reader = await reader_of(plane, "status,swaps,decisions", reader.last_id)
        kinds = set()
        while not {"swap", "decision"} <= kinds or shown["slots"][0]["resident"] != ["b"]:
            heard = await reader.next()
            kinds.add(heard.kind)
            if heard.kind == "delta":
                shown = apply_patch(shown, heard.data["patch"])
            elif heard.kind == "swap":
                assert (heard.data["serve"], heard.data["victims"], heard.data["outcome"]) == ("b", ["a"], "ready")
        assert "snapshot" not in kinds
        assert [one["state"] for one in shown["serves"]] == ["stopped", "ready"]
        await reader.client.close()


@story
async def test_the_lines_of_an_engine_are_seen_as_it_writes_them() -> None:
    with running(serve("a")) as plane:
        reader = await reader_of(plane, "logs:a")
        assert (await reader.next()).data["lines"] == []
        assert (await ask(plane, "a")).status == 200
        assert (await reader.until("log")).data["line"] in plane.log("a").splitlines()
        await reader.client.close()


@story
async def test_a_reader_does_not_hold_up_a_shutdown_and_its_stream_ends_in_order() -> None:
    with running(serve("a")) as plane:
        reader = await reader_of(plane, "status,decisions")
        await reader.next()
        plane.signal(signal.SIGTERM)
        assert await reader.ends()
        assert plane.exit_code() == 0
        await reader.client.close()
