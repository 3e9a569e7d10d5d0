"""Sending, with a real receiver: what a collector that is down, slow or refusing costs, and what the end costs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.otel.receiver import Receiver, attributes

from stoker.domain.decision import Attempt, Candidate, Decision, Routed
from stoker.domain.events import SwapEnded
from stoker.domain.swap import SwapReport
from stoker.domain.trace import RequestTrace, Try
from stoker.store.metrics import Metrics
from stoker_otel import environment
from stoker_otel.settings import ServeLabels, Telemetry
from stoker_otel.telemetry import TelemetryOptions, TelemetrySender

QUICK = TelemetryOptions(queue=64, pause=0.02, interval=3600)


@contextmanager
def sending(
    url: str, options: TelemetryOptions = QUICK, settings: Telemetry | None = None
) -> Iterator[TelemetrySender]:
    facts = {"a": ServeLabels("vllm", "gpu0"), "a@gpu1": ServeLabels("vllm", "gpu1")}
    sender = TelemetrySender(settings or Telemetry(url), options, "1.2.3", Metrics(), lambda: facts)
    sender.start()
    try:
        yield sender
    finally:
        sender.close()


def request(sender: TelemetrySender, **fields: object) -> RequestTrace:
    """One request that is over."""
    trace = sender.begin("POST", "http", {}, time.monotonic())
    known: dict[str, object] = {"id": "r1", "at": time.time(), "endpoint": "/v1/chat/completions", "serve": "a"}
    known |= {"outcome": "served", "status": 200, "latency": 0.5}
    sender.finish(trace, Decision(**{**known, **fields}))  # type: ignore[arg-type]
    return trace


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _patient_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be loaded."""
    monkeypatch.setattr("stoker_otel.telemetry.END_WITHIN", 30.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_what_waits_at_the_end_is_sent_with_the_metrics(receiver: Receiver) -> None:
    with sending(receiver.url, QUICK._replace(pause=60.0)) as sender:
        request(sender)
    assert [span.name for span in receiver.spans()] == ["POST /v1/chat/completions"]
    assert receiver.points("gen_ai.server.request.duration")[0].sum == 0.5
    facts = attributes(receiver.points("gen_ai.server.request.duration")[0])
    assert facts == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "a",
    }  # fmt: skip
    assert (sender.sent, sender.dropped) == (1, 0)


@pytest.mark.parametrize("status", [400, 500, 503, 429])
def test_a_collector_that_refuses_costs_one_warning_and_the_spans_are_counted(
    receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    receiver.status = status
    with caplog.at_level(logging.INFO), sending(receiver.url) as sender:
        for size in (1, 2, 3):
            request(sender)
            until(lambda size=size: sender.dropped == size)  # type: ignore[misc]
        assert [one.levelname for one in caplog.records] == ["WARNING"]
        assert caplog.records[0].name == "stoker.telemetry"
        receiver.status = 200
        request(sender)
        until(lambda: sender.sent == 1 and sender.status()["problem"] is None)
    assert "sent again; 3 requests" in caplog.text


def test_a_slow_collector_holds_no_request_up_and_what_waits_is_bounded(receiver: Receiver) -> None:
    receiver.delay = 1.0
    with sending(receiver.url, QUICK._replace(queue=4)) as sender:
        request(sender)
        until(lambda: not sender.status()["waiting"])
        before = time.thread_time()
        for _ in range(100):
            request(sender)
        assert time.thread_time() - before < 0.1
        assert sender.status()["waiting"] == 4
        assert sender.dropped == 96


def test_the_end_waits_for_a_dead_collector_only_so_long(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker_otel.telemetry.END_WITHIN", 0.2)
    receiver.status = 503  # it is asked again and again, for ten seconds
    with sending(receiver.url) as sender:
        request(sender)
        until(lambda: receiver.raw)
        before = time.monotonic()
    assert time.monotonic() - before < 3.0


def test_calls_of_serves_are_spans_with_their_errors_and_what_they_waited(receiver: Receiver) -> None:
    with sending(receiver.url) as sender:
        now = time.monotonic()
        trace = sender.begin("POST", "http", {}, now)
        first = Try("a@gpu1", "10.0.0.1", 80, "m", now + 0.1, False, now + 0.1, 0.1, now + 0.2, 503)
        second = Try("a", "10.0.0.2", 81, "m", now + 0.3, True, now + 0.3, 0.0, now + 0.9, 200, 7, 3, 2, 1)
        trace.tries += [first, second]
        sender.finish(trace, Decision(
            "r1", time.time(), "/v1/completions", serve="a", replica="a", outcome="served", status=200, latency=1.0,
            ttft=0.4, stream=True, candidates=[Candidate("a@gpu1", "upstream_error"), Candidate("a")],
            routed=Routed("chat", "rules", tier="t", verify="hold-all",
                          attempts=[Attempt("t", "served", checked=True, findings=["json"])]),
        ))  # fmt: skip
    spans = receiver.spans()
    assert [span.name for span in spans] == [
        "POST /v1/completions", "queue", "text_completion m", "text_completion m", "verify",
    ]  # fmt: skip
    request, queue, failed, served, verify = spans
    assert attributes(request)["stoker.fallback"] == ["a@gpu1: upstream_error"]
    assert queue.end_time_unix_nano - queue.start_time_unix_nano == pytest.approx(1e8, rel=1e-3)
    assert (attributes(failed)["error.type"], failed.status.code) == ("503", 2)
    facts = attributes(served)
    assert "error.type" not in facts
    assert facts["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.1, abs=0.01)
    tokens = [facts[f"gen_ai.usage.{name}"] for name in
              ("input_tokens", "output_tokens", "cache_read.input_tokens", "reasoning.output_tokens")]  # fmt: skip
    assert tokens == [7, 3, 2, 1]
    assert served.span_id == (int.from_bytes(request.span_id) + 2).to_bytes(8)
    assert attributes(verify)["stoker.verify.findings"] == ["json"]


@pytest.mark.parametrize(
    ("outcome", "status", "reason", "is_error"),
    [("refused", 400, "bad_request", False), ("upstream_failed", 502, "upstream_error", True),
     ("client_left", 499, "", False), ("cut", 200, "cut", True)],
)  # fmt: skip
def test_a_fault_of_the_caller_is_no_error_of_the_request(
    receiver: Receiver, outcome: str, status: int, reason: str, is_error: bool
) -> None:
    with sending(receiver.url) as sender:
        request(sender, outcome=outcome, status=status, reason=reason)
    [span] = receiver.spans()
    assert (span.status.code == 2) is is_error
    assert attributes(span).get("error.type", "") == reason


def test_a_swap_that_failed_is_a_trace_with_the_phases_that_it_came_to(receiver: Receiver) -> None:
    with sending(receiver.url) as sender:
        report = SwapReport(7, "b", "gpu0", ("a",), "failed", {"drain": 1.0, "check": 0.5}, "warm", "an error text")
        sender.on_event(SwapEnded(report))
    swap, drain, check = receiver.spans()
    assert (swap.name, swap.status.code) == ("swap b", 2)
    assert drain.end_time_unix_nano == check.start_time_unix_nano
    assert "an error text" not in str(swap), "an engine's words may be content"


def test_the_configured_share_is_sampled_and_none_where_traces_are_off() -> None:
    def sampled(settings: Telemetry, share: float) -> int:
        sender = TelemetrySender(settings, TelemetryOptions(share), "1", Metrics(), dict)
        return sum(sender.begin("POST", "http", {}, 0.0).is_sampled for _ in range(1000))

    assert sampled(Telemetry(), 1.0) == 1000
    assert sampled(Telemetry(), 0.0) == 0
    assert sampled(Telemetry(traces=False), 1.0) == 0
    assert 100 < sampled(Telemetry(), 0.25) < 400


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, TelemetryOptions()),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, TelemetryOptions(0.0)),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
            TelemetryOptions(0.25),
        ),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, TelemetryOptions()),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "9", "OTEL_BSP_SCHEDULE_DELAY": "50"}, TelemetryOptions(1.0, 9, 0.05)),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "500"}, TelemetryOptions(interval=0.5)),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "nan", "OTEL_BSP_MAX_QUEUE_SIZE": "inf"}, TelemetryOptions()),
    ],
)
def test_the_usual_variables_decide_what_is_not_configured(variables: dict[str, str], found: TelemetryOptions) -> None:
    assert environment.options(Telemetry(), variables) == found
    assert environment.options(Telemetry(sampling=0.5), variables).sampling == 0.5


def test_an_opentelemetry_that_does_not_start_is_logged_and_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise ValueError("a certificate that cannot be read")

    monkeypatch.setattr("stoker_otel.otlp.OTLPSpanExporter", broken)
    with sending("http://127.0.0.1:9") as sender:
        request(sender)
        assert "ValueError" in str(sender.status()["problem"])
    assert "OpenTelemetry does not start" in caplog.text


def test_the_services_name_is_the_configured_one_then_that_of_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-environment")
    for name, found in (("", "from-environment"), ("own", "own")):
        with sending("", settings=Telemetry(receiver.url, service_name=name)) as sender:
            request(sender)
        assert receiver.resource()["service.name"] == found
    assert receiver.resource()["service.version"] == "1.2.3"
