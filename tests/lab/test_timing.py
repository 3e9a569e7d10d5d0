"""The definitions, on requests whose every time is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.domain.answer import Tokens
from stoker_lab.requests.timing import RequestTiming, Slo, Window, goodput, is_good, output_rate, steady


def request(**fields: Any) -> RequestTiming:
    """Sent at 10, its first token at 10.5, 11 tokens to 12.5."""
    usual: dict[str, Any] = {"scheduled": 9.9, "t0": 10.0, "ended": 12.6, "status": 200, "first_token_at": 10.5,
                             "first_output_at": 11.0}  # fmt: skip
    return RequestTiming(**(usual | {"last_token_at": 12.5, "tokens": Tokens(output=11), "chunks": 11} | fields))


def test_each_time_is_what_its_formula_says() -> None:
    timed = request()
    assert (timed.ttft, timed.ttfo, timed.e2e) == (0.5, 1.0, 2.5)
    assert (timed.tpot, timed.ntpot) == (pytest.approx(0.2), pytest.approx(2.5 / 11))
    assert timed.lag == pytest.approx(0.1)
    assert timed.is_ok


def test_without_usage_there_are_no_token_rates() -> None:
    """Behaviour 52: the number of chunks is not the number of tokens."""
    timed = request(tokens=Tokens())
    assert (timed.tpot, timed.ntpot) == (None, None)
    assert timed.ttft == 0.5
    assert output_rate([timed], Window(0, 20)) is None


def test_a_single_token_has_no_tpot_and_nothing_has_no_times() -> None:
    assert request(tokens=Tokens(output=1)).tpot is None
    empty = request(first_token_at=None, first_output_at=None, last_token_at=None, chunks=0)
    assert (empty.ttft, empty.ttfo, empty.e2e, empty.tpot, empty.ntpot) == (None,) * 5


@pytest.mark.parametrize(
    ("slo", "fields", "good"),
    [
        (Slo(), {}, True),
        (Slo(), {"failure": "http_500"}, False),
        (Slo(ttft=0.6, e2e=3.0, tpot=0.25), {}, True),
        (Slo(ttft=0.4), {}, False),
        (Slo(e2e=2.0), {}, False),
        (Slo(tpot=0.1), {}, False),
        (Slo(tpot=0.1), {"tokens": Tokens(output=1)}, True),
        (Slo(tpot=0.1), {"tokens": Tokens()}, False),
        (Slo(ttft=9), {"first_token_at": None}, False),
    ],
)
def test_a_good_request_keeps_every_bound_that_applies_to_it(slo: Slo, fields: dict[str, Any], good: bool) -> None:
    assert is_good(request(**fields), slo) is good


def test_only_what_ended_within_the_window_counts_for_throughput() -> None:
    window = Window(12.0, 14.0)
    inside, late = request(), request(ended=14.1)
    assert steady([inside, late], window) == [inside]
    assert output_rate([inside, late, request(failure="x", tokens=Tokens())], window) == 5.5
    assert output_rate([late], window) is None
    assert output_rate([inside], Window(12.6, 12.6)) is None


def test_failed_requests_stay_among_all_for_goodput() -> None:
    window = Window(9.0, 13.0)
    assert goodput([request(), request(failure="broke_off"), request(t0=20.0)], window, Slo(ttft=1.0)) == (
        0.25,
        0.5,
    )
    assert goodput([], window, Slo()) is None


def test_stored_timings_keep_their_field_names() -> None:
    stored = b'{"scheduled":9.9,"t0":10.0,"ended":12.6,"first":10.5,"visible":11.0,"last":12.5}'
    timed = msgspec.json.decode(stored, type=RequestTiming)
    assert (timed.ttft, timed.ttfo, timed.e2e) == (0.5, 1.0, 2.5)
    assert {"first", "visible", "last"} <= msgspec.to_builtins(timed).keys()
