"""GET /events: a snapshot of each topic, then what happens, live."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.gateway.event_reader import Heard, Reader
from tests.gateway.event_stage import EventStage, event_story
from tests.gateway.flow_stage import ask

from stoker.domain.key import Key, Scope
from stoker.domain.merge_patch import apply_patch
from stoker.domain.serve import Secret
from stoker.gateway.events import streams
from stoker_lab.testing.client import FramingError

KEYS = (
    Key("boss", Secret("k-boss", "env:A"), Scope.ADMIN), Key("eye", Secret("k-eye", "env:B"), Scope.OBSERVE),
    Key("user", Secret("k-user", "env:C")), Key("part", Secret("k-part", "env:D"), Scope.ADMIN, models=("a",)),
)  # fmt: skip


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def refusal(stage: EventStage, topics: str, key: str = "") -> tuple[int, str]:
    """The status and code of a refusal."""
    reply = await stage.get(f"/events?topics={topics}", **(bearer(key) if key else {}))
    return reply.status, reply.json()["error"]["code"]


async def ids(reader: Reader, count: int) -> list[str]:
    """Of the next decisions."""
    return [(await reader.until("decision")).data["id"] for _ in range(count)]


# -- the beginning ---------------------------------------------------------------------------------------------------


@event_story()
async def test_a_snapshot_of_each_topic_comes_first_and_the_last_one_has_the_id(stage: EventStage) -> None:
    stage.decide(2)
    stage.swap()
    reader = await stage.reader()
    status, swaps, decisions = [await reader.next() for _ in range(3)]
    assert [one.data["topic"] for one in (status, swaps, decisions)] == ["status", "swaps", "decisions"]
    assert {one.kind for one in (status, swaps, decisions)} == {"snapshot"}
    assert [bool(one.id) for one in (status, swaps, decisions)] == [False, False, True]
    assert [one["name"] for one in status.data["serves"]] == ["a", "b", "other", "far"]
    assert [(one["serve"], one["victims"]) for one in swaps.data["swaps"]] == [("a", ["b"])]
    assert [one["id"] for one in decisions.data["decisions"]] == ["req-2", "req-1"]
    assert reader.retry == str(streams.RETRY)
    assert reader.head.header("content-type") == "text/event-stream"
    assert (reader.head.header("x-accel-buffering"), reader.head.header("cache-control")) == ("no", "no-store")


@event_story()
async def test_what_happens_afterwards_comes_with_ids_that_increase(stage: EventStage) -> None:
    reader = await stage.reader("swaps,decisions")
    await reader.next(), await reader.next()
    stage.decide()
    one = await reader.next()
    stage.swap("b")
    two = await reader.next()
    assert (one.kind, one.data["id"], two.kind, two.data["serve"]) == ("decision", "req-1", "swap", "b")
    first, second = (int(heard.id.rpartition("-")[2]) for heard in (one, two))
    assert first < second


@event_story()
async def test_the_deltas_of_the_status_make_the_document_of_status(stage: EventStage) -> None:
    reader = await stage.reader("status")
    shown = (await reader.next()).data
    for draining, version in ((True, "1"), (True, "2"), (False, "3")):
        stage.says = {"draining": draining, "version": version}
        heard = await reader.until("delta")
        assert heard.data["topic"] == "status"
        shown = apply_patch(shown, heard.data["patch"])
        assert (shown["draining"], shown["version"]) == (draining, version)


@event_story()
async def test_a_serve_that_is_loaded_is_a_delta_of_its_entry(stage: EventStage) -> None:
    reader = await stage.reader("status")
    shown = (await reader.next()).data
    await stage.conductor.switch("a")
    while shown["serves"][0]["state"] != "ready":
        shown = apply_patch(shown, (await reader.until("delta")).data["patch"])
    assert shown["slots"][0]["resident"] == ["a"]


@event_story()
async def test_requests_in_flight_are_told_with_what_they_do(stage: EventStage) -> None:
    reader = await stage.reader("requests")
    shown = (await reader.next()).data
    assert (shown["count"], shown["requests"]) == (0, {})
    client = await stage.client()
    await client.send(ask(headers=(("x-request-id", "r1"),), stream=True))
    talk = await stage.asked()
    states = []
    for step in (lambda: None, lambda: (talk.begin("content-type: text/event-stream"), talk.say("hello"))):
        step()
        shown = apply_patch(shown, (await reader.until("delta")).data["patch"])
        one = shown["requests"]["r1"]
        states.append(one["state"])
    assert (one["model"], one["serve"], one["stream"]) == ("a", "a", True)
    assert one["ttft"] >= 0
    assert states == ["prompt", "answering"]
    talk.close()
    heard = await reader.until("delta")
    assert heard.data == {"topic": "requests", "patch": {"count": 0, "requests": {"r1": None}}}


@event_story()
async def test_what_changes_by_itself_is_sent_once_a_second(stage: EventStage) -> None:
    reader = await stage.reader("status")
    await reader.next()
    before = stage.polls
    for number in range(3):
        stage.says = {"uptime": number}
        seen = stage.polls
        await stage.until(lambda seen=seen: stage.polls > seen)  # type: ignore[misc]
    stage.says = {"uptime": 9, "version": "later"}
    assert (await reader.next()).data["patch"] == {"uptime": 9, "version": "later"}
    assert stage.polls - before <= 10


# -- topics and access -----------------------------------------------------------------------------------------------


@event_story()
async def test_only_the_topics_that_were_asked_for_come(stage: EventStage) -> None:
    reader = await stage.reader("swaps")
    other = await stage.reader("decisions")
    await reader.next(), await other.next()
    stage.decide()
    await other.until("decision")
    stage.swap()
    assert (await reader.next()).kind == "swap"


@event_story()
async def test_unknown_topics_and_serves_are_named(stage: EventStage) -> None:
    for topics in ("weather", "status,,swaps", "logs:", "logs", "", ",".join(f"logs:{n}" for n in range(20))):
        assert await refusal(stage, topics) == (400, "bad_field")
    assert await refusal(stage, "logs:nobody") == (404, "unknown_serve")
    reply = await stage.get("/events?topics=weather")
    assert "'weather'" in reply.json()["error"]["message"]
    assert "status, requests, swaps, decisions, results and logs:SERVE" in reply.json()["error"]["message"]


@event_story(keys=KEYS)
async def test_observe_reads_everything_but_logs_which_need_admin(stage: EventStage) -> None:
    assert await refusal(stage, "status", "k-user") == (403, "scope")
    assert await refusal(stage, "logs:a", "k-eye") == (403, "scope")
    assert (await stage.get("/events?topics=status")).status == 401
    await (await stage.reader("status", **bearer("k-eye"))).next()
    await (await stage.reader("logs:b", **bearer("k-boss"))).next()
    assert await refusal(stage, "logs:b", "k-part") == (404, "unknown_serve")
    assert await refusal(stage, "logs:b", "k-eye") == (403, "scope"), "although somebody reads it"


@event_story()
async def test_a_reader_without_a_key_reads_no_longer_once_keys_are_asked_for(stage: EventStage) -> None:
    reader = await stage.reader("status")
    await reader.next()
    stage.door.configure(replace(stage.front_door, keys=KEYS))
    assert await reader.ends()
    assert (await stage.get("/events?topics=status")).status == 401
    await stage.until(lambda: stage.events.is_idle)


@event_story(keys=KEYS)
async def test_who_may_read_no_longer_is_not_told_more_and_the_others_are(stage: EventStage) -> None:
    gone, lowered = await stage.reader("status", **bearer("k-eye")), await stage.reader("logs:a", **bearer("k-boss"))
    stays = await stage.reader("decisions", **bearer("k-boss"))
    await gone.next(), await lowered.next(), await stays.next()
    boss = Key("boss", Secret("k-boss", "env:A"), Scope.OBSERVE)
    stage.door.configure(replace(stage.front_door, keys=(boss,)))
    assert [await gone.ends(), await lowered.ends()] == [True, True]
    stage.decide()
    assert await ids(stays, 1) == ["req-1"]


@event_story()
async def test_a_page_of_another_site_cannot_read_events(stage: EventStage) -> None:
    reply = await stage.get("/events", origin="https://elsewhere.example")
    assert reply.status == 403


@event_story()
async def test_other_methods_are_refused(stage: EventStage) -> None:
    assert (await stage.post("/events")).status == 405


# -- going on --------------------------------------------------------------------------------------------------------


@event_story()
async def test_a_reader_goes_on_after_the_last_event_that_it_got(stage: EventStage) -> None:
    reader = await stage.reader("decisions")
    await reader.next()
    stage.decide()
    await reader.until("decision")
    await stage.leave(reader)
    stage.decide(2)
    again = await stage.reader("decisions", reader.last_id)
    assert await ids(again, 2) == ["req-2", "req-3"]
    stage.decide()
    assert await ids(again, 1) == ["req-4"]


@event_story()
async def test_the_status_goes_on_with_what_changed_while_nobody_looked(stage: EventStage) -> None:
    stage.says = {"version": "1"}
    reader = await stage.reader("status")
    await reader.next()
    await stage.leave(reader)
    stage.says = {"version": "2"}
    again = await stage.reader("status", reader.last_id)
    heard = await again.next()
    assert heard.kind == "delta"
    assert heard.data["patch"]["version"] == "2"


@event_story()
async def test_an_id_that_is_too_old_gets_new_snapshots(stage: EventStage) -> None:
    reader = await stage.reader("decisions")
    old = (await reader.next()).id
    for _ in range(6):
        stage.decide(1000)
        await ids(reader, 1000)
    again = await stage.reader("decisions", old)
    heard = await again.next()
    assert (heard.kind, heard.data["decisions"][0]["id"]) == ("snapshot", "req-6000")


@event_story()
async def test_ids_of_another_process_and_of_nobody_get_snapshots(stage: EventStage) -> None:
    for id in ("p0-1", "p1-99", "p1-", "p1-x", "7", "-" * 5000, "p1-" + "9" * 4000):
        assert (await (await stage.reader("decisions", id)).next()).kind == "snapshot"


@event_story()
async def test_a_topic_that_was_not_read_before_begins_with_its_snapshot(stage: EventStage) -> None:
    reader = await stage.reader("decisions")
    await reader.next()
    again = await stage.reader("decisions,swaps", reader.last_id)
    heard = await again.next()
    assert (heard.kind, heard.data["topic"]) == ("snapshot", "swaps")


@event_story()
async def test_more_decisions_than_memory_holds_are_a_new_snapshot(stage: EventStage) -> None:
    reader = await stage.reader("decisions")
    await reader.next()
    stage.decide()
    await reader.until("decision")
    stage.decide(20_000)
    heard = await reader.next()
    assert (heard.kind, heard.data["decisions"][0]["id"]) == ("snapshot", "req-20001")


# -- slow readers, the end -------------------------------------------------------------------------------------------


@event_story()
async def test_a_reader_that_does_not_read_holds_nothing_up_and_is_sent_a_new_snapshot_later(stage: EventStage) -> None:
    slow = Reader(await stage.client(receive_buffer=4096, limit=1024))
    await slow.open("decisions")
    quick = await stage.reader("decisions")
    await quick.next()
    for _ in range(20):
        stage.decide(500, "m" * 1500)
        await ids(quick, 500)
    ended = False
    last = Heard("", None)
    while not ended:
        try:
            last = await slow.next()
        except (StopAsyncIteration, FramingError):
            ended = True
    assert last.data["id"] != "req-10000", "it was cut before it had everything"
    again = await stage.reader("decisions", slow.last_id)
    assert (await again.next()).data["decisions"][0]["id"] == "req-10000"


@event_story()
async def test_a_reader_that_reads_nothing_at_all_is_cut(stage: EventStage) -> None:
    slow = Reader(await stage.client(receive_buffer=4096, limit=1024))
    await slow.open("decisions")
    for _ in range(6):
        stage.decide(500, "m" * 3000)
        await asyncio.sleep(0.15)
    await stage.until(lambda: stage.events.is_idle, "it was cut")


@event_story()
async def test_silence_is_broken_by_comments(stage: EventStage) -> None:
    reader = await stage.reader("swaps")
    await reader.next()
    await asyncio.sleep(0.5)
    stage.swap()
    await reader.next()
    assert reader.comments == [": ping"]


@event_story()
async def test_streams_end_in_order_when_stoker_shuts_down(stage: EventStage) -> None:
    readers = [await stage.reader("status"), await stage.reader("decisions")]
    stage.is_ending = True
    assert [await one.ends() for one in readers] == [True, True]
    await stage.until(lambda: stage.events.is_idle)


@event_story()
async def test_with_no_reader_nothing_is_looked_at(stage: EventStage) -> None:
    reader = await stage.reader("status,decisions")
    await reader.next()
    await stage.leave(reader)
    polls = stage.polls
    stage.decide(3)
    await asyncio.sleep(2 * streams.TICK + 0.3)
    assert (stage.polls, stage.events.count) == (polls, 0)


@event_story()
async def test_a_thousand_readers_come_and_go_and_leave_nothing(stage: EventStage) -> None:
    async def visit(number: int) -> None:
        reader = await stage.reader("status,decisions")
        if number % 2:
            await reader.next()
        if number % 3:
            reader.client.abort()
        else:
            await reader.client.close()

    for start in range(0, 1000, 50):
        await asyncio.gather(*(visit(start + number) for number in range(50)))
        await stage.until(lambda: stage.events.is_idle, "nobody reads")
    assert (stage.events.count, len(stage.state.connections)) == (0, 0)


@event_story()
async def test_readers_beyond_the_limit_are_refused(stage: EventStage) -> None:
    for _ in range(streams.MAX_READERS):
        await stage.reader("swaps")
    reply = await stage.get("/events")
    assert (reply.status, reply.json()["error"]["code"]) == (503, "too_many_streams")


# -- logs and results ------------------------------------------------------------------------------------------------


@event_story()
async def test_a_log_is_its_last_lines_and_then_each_further_one(stage: EventStage) -> None:
    path = stage.logs / "a.log"
    path.write_text("one\ntwo\nthr")
    reader = await stage.reader("logs:a")
    first = (await reader.next()).data
    assert first == {"topic": "logs:a", "serve": "a", "lines": ["one", "two"]}
    with path.open("a") as log:
        log.write("ee\nfo\x1b[1mur\x00\r\n" + "x" * 5000 + "\n")
    lines = [(await reader.until("log")).data for _ in range(3)]
    assert [one["line"] for one in lines] == ["three", "fo\x1b[1mur\x00", "x" * 2000]
    assert {one["serve"] for one in lines} == {"a"}


@event_story()
async def test_a_flood_of_lines_becomes_a_new_snapshot_of_the_last_ones(stage: EventStage) -> None:
    path = stage.logs / "a.log"
    path.write_text("")
    reader = await stage.reader("logs:a")
    await reader.next()
    path.write_text("".join(f"{number}\n" for number in range(200_000)))
    heard: dict[str, Any] = (await reader.until("snapshot")).data
    assert (len(heard["lines"]), heard["lines"][-1]) == (200, "199999")
