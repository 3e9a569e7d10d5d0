"""Traces and metrics at a real OTLP receiver, of real requests and swaps; and `traceparent` on its way to engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.otel.receiver import Receiver, attributes
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until

SERVER, CLIENT = 2, 3
"""Kinds of spans in OTLP."""
MARKERS = ("key-app-sixteen-letters", "collector-token-marker", "prompt-marker", "tok0", "engine-key-marker-16")
"""A key of a caller, the token of the collector (in its heads only), a word of the prompt, one of the answer, and the
key of an engine."""
ENVIRONMENT = {
    "APP_KEY": MARKERS[0],
    "COLLECTOR_TOKEN": MARKERS[1],
    "ENGINE_KEY": MARKERS[4],
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_METRIC_EXPORT_INTERVAL": "300",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
}
DOOR = 'keys = [{ name = "app", value = "env:APP_KEY" }]'
TELEMETRY = '[telemetry]\nendpoint = "URL"\nheaders = { x-token = "env:COLLECTOR_TOKEN" }'
TIER = '[[tier]]\nname = "small"\nserve = "a"\nverify = "hold-all"'
APP = ("authorization", f"Bearer {MARKERS[0]}")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def traced(receiver: Receiver) -> Iterator[Plane]:
    tables = (serve("a", key="env:ENGINE_KEY"), serve("b"), TIER, TELEMETRY.replace("URL", receiver.url))
    with running(*tables, front_door=DOOR, environment=ENVIRONMENT) as plane:
        yield plane


async def spans_of(receiver: Receiver, trace: str, least: int) -> list[Any]:
    def found() -> list[Any]:
        return [span for span in receiver.spans() if span.trace_id.hex() == trace]

    await until(lambda: len(found()) >= least, lambda: f"{least} spans came: {[one.name for one in found()]}")
    return found()


def asked(*headers: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (APP, *headers)


@story
async def test_a_request_that_waits_for_a_swap_is_one_trace_linked_to_the_swaps(
    traced: Plane, receiver: Receiver
) -> None:
    assert (await ask(traced, "b", headers=asked())).status == 200
    text = "prompt-marker script: tokens=4 gap=0.02"
    headers = asked(("traceparent", PARENT), ("tracestate", "vendor=kept"))
    reply = await ask(traced, "a", text, headers=headers, stream=True)
    assert reply.status == 200
    spans = await spans_of(receiver, PARENT[3:35], 4)
    assert [span.name for span in spans] == ["POST /v1/chat/completions", "queue", "load a", "chat a"]
    request, queue, load, call = spans
    assert (request.kind, call.kind) == (SERVER, CLIENT)
    assert request.parent_span_id.hex() == PARENT[36:52]
    assert [one.parent_span_id for one in (queue, load, call)] == [request.span_id, queue.span_id, request.span_id]
    assert request.start_time_unix_nano <= queue.start_time_unix_nano <= load.start_time_unix_nano
    assert load.end_time_unix_nano <= queue.end_time_unix_nano <= call.start_time_unix_nano
    assert call.start_time_unix_nano < call.end_time_unix_nano <= request.end_time_unix_nano
    assert {one.trace_state for one in spans} == {"vendor=kept"}

    facts = attributes(request)
    assert facts["http.request.method"] == "POST"
    assert facts["http.route"] == "/v1/chat/completions"
    assert facts["http.response.status_code"] == 200
    assert (facts["stoker.serve"], facts["stoker.slot"], facts["stoker.key"]) == ("a", "gpu0", "app")
    assert (facts["stoker.outcome"], facts["stoker.request.id"]) == ("served", reply.header("x-request-id"))
    facts = attributes(call)
    assert (facts["gen_ai.operation.name"], facts["gen_ai.request.model"]) == ("chat", "a")
    assert (facts["gen_ai.usage.output_tokens"], facts["gen_ai.request.stream"]) == (4, True)
    assert 0 < facts["gen_ai.response.time_to_first_chunk"] < 30
    assert facts["server.port"] == traced.serve("a")["port"]

    sent = traced.received("a", "/v1/chat/completions")[-1]["headers"]
    assert dict(sent)["traceparent"] == f"{PARENT[:35]}-{call.span_id.hex()}-01"
    assert dict(sent)["tracestate"] == "vendor=kept"

    swap = load.links[0]
    found = await spans_of(receiver, swap.trace_id.hex(), 2)
    assert found[0].name == "swap a"
    assert found[0].span_id == swap.span_id
    assert {"stop", "start", "ready"} <= {span.name for span in found}
    assert attributes(found[0])["stoker.swap.victims"] == ["b"]


@story
async def test_a_checked_answer_of_a_tier_has_a_span_for_the_check(traced: Plane, receiver: Receiver) -> None:
    trace = PARENT.replace("0af7", "2af7")
    assert (await ask(traced, "auto:chat", headers=asked(("traceparent", trace)))).status == 200
    spans = {span.name: span for span in await spans_of(receiver, trace[3:35], 3)}
    assert spans["verify"].parent_span_id == spans["chat a"].span_id
    facts = attributes(spans["POST /v1/chat/completions"])
    assert (facts["stoker.tier"], facts["stoker.class"]) == ("small", "chat")
    assert attributes(spans["verify"]) == {"stoker.verify": "hold-all", "stoker.tier": "small"}


@story
async def test_a_client_that_does_not_sample_gets_no_span_and_its_engine_gets_to_know(
    traced: Plane, receiver: Receiver
) -> None:
    assert (await ask(traced, "a", headers=asked(("traceparent", UNSAMPLED)))).status == 200
    sent = dict(traced.received("a", "/v1/chat/completions")[-1]["headers"])["traceparent"]
    assert sent.startswith(UNSAMPLED[:36])
    assert sent.endswith("-00")
    assert sent[36:52] != UNSAMPLED[36:52]
    last = PARENT.replace("0af7", "3af7")
    assert (await ask(traced, "nobody", headers=asked(("traceparent", last)))).status == 404
    [refused] = await spans_of(receiver, last[3:35], 1)
    assert attributes(refused)["error.type"] == "unknown_model"
    assert refused.status.code == 0, "a caller's fault is no error of the server"
    assert UNSAMPLED[3:35] not in {span.trace_id.hex() for span in receiver.spans()}


@story
async def test_metrics_come_with_the_names_of_the_conventions(traced: Plane, receiver: Receiver) -> None:
    assert (await ask(traced, "a", "script: tokens=8 gap=0.02", headers=asked(), stream=True)).status == 200

    def counts(name: str) -> int:
        points = receiver.points(name) if receiver.metrics else []
        return sum(one.count for one in points if attributes(one).get("gen_ai.request.model") == "a")

    await until(lambda: counts("gen_ai.server.time_per_output_token") > 0, "the metrics came")
    for name in ("request.duration", "time_to_first_token"):
        assert counts(f"gen_ai.server.{name}") > 0
    [point, *_] = receiver.points("gen_ai.client.token.usage")
    assert attributes(point)["gen_ai.token.type"] in ("input", "output")
    assert sum(point.bucket_counts) == point.count
    assert receiver.points("stoker.queue.duration")
    assert {attributes(one)["stoker.serve"] for one in receiver.points("stoker.swap.duration")} >= {"a"}
    assert receiver.points("stoker.swaps")


@story
async def test_no_prompt_no_answer_and_no_key_is_sent_and_status_counts_what_was(
    traced: Plane, receiver: Receiver
) -> None:
    trace = PARENT.replace("0af7", "4af7")
    reply = await ask(traced, "a", "prompt-marker", headers=asked(("traceparent", trace)))
    assert b"tok0" in reply.body
    await spans_of(receiver, trace[3:35], 2)
    sent = b"".join(receiver.raw)
    assert [one for one in MARKERS if one.encode() in sent] == ["collector-token-marker"]
    assert receiver.resource()["service.name"] == "stoker"
    assert receiver.resource()["deployment.environment.name"] == "test"
    await until(lambda: traced.status()["telemetry"]["sent"] > 0, "they are counted")
    assert traced.status()["telemetry"]["dropped"] == 0
    assert 'stoker_telemetry_total{result="dropped"} 0.0' in traced.ask("GET", "/metrics")[1]


@story
async def test_without_telemetry_traceparent_reaches_engines_as_it_came_in_every_dialect() -> None:
    with running(serve("a", slot=None), serve("m", slot=None, dialects=["messages"])) as plane:
        headers = (("traceparent", PARENT), ("tracestate", "vendor=kept"))
        for model, path in (("a", "/v1/chat/completions"), ("m", "/v1/messages")):
            assert (await ask(plane, model, headers=headers, max_tokens=5)).status == 200
            sent = dict(plane.received(model, path)[-1]["headers"])
            assert (sent["traceparent"], sent["tracestate"]) == (PARENT, "vendor=kept")
        assert plane.status()["telemetry"] is None
        assert "stoker_telemetry" not in plane.ask("GET", "/metrics")[1]


@story
async def test_a_collector_that_is_down_costs_one_warning_and_no_request(tmp_path: Any) -> None:
    tables = (serve("a"), TELEMETRY.replace("URL", "http://127.0.0.1:9"))
    environment = {**ENVIRONMENT, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2", "OTEL_BSP_MAX_QUEUE_SIZE": "3"}
    with running(*tables, environment=environment) as plane:
        for _ in range(20):
            assert (await ask(plane, "a")).status == 200
        await until(lambda: plane.status()["telemetry"]["problem"], "it is noticed")
        await until(lambda: plane.status()["telemetry"]["dropped"] >= 20, lambda: f"{plane.status()['telemetry']}")
        assert (await ask(plane, "a")).status == 200
        log = (plane.state / "logs" / "stoker.log").read_text()
        assert log.count("telemetry cannot be sent") == 1, log
        assert MARKERS[1] not in log
