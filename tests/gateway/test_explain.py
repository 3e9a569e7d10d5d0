"""What a request waited for, from its decision and the swaps that are remembered."""

from __future__ import annotations

import msgspec
import pytest

from stoker.domain.decision import Attempt, Candidate, Decision, Routed
from stoker.domain.swap import SwapReport
from stoker.gateway.explain.explanation import explain, with_waits
from stoker.gateway.explain.facts import as_text, facts
from stoker.gateway.explain.timeline import Span, SpanKind

PHASES = {"drain": 1.0, "check": 0.01, "stop": 0.25, "start": 2.0, "ready": 0.5}
SWAP = SwapReport(7, "coder", "gpu0", ("chat",), "ready", PHASES, at=1005.0)
"""It began at 1001.24."""


def request(**changes: object) -> Decision:
    given: dict[str, object] = {
        "id": "r", "at": 1000.0, "endpoint": "/v1/chat/completions", "model": "coder", "serve": "coder",
        "candidates": [Candidate("coder")], "attempts": 1, "stream": True, "status": 200, "outcome": "served",
        "queued": 5.0, "ttft": 5.5, "latency": 8.0,
    }  # fmt: skip
    return Decision(**{**given, **changes})  # type: ignore[arg-type]


def shown(spans: list[Span]) -> list[tuple[str, float, float]]:
    return [(one.kind.value, round(one.start, 2), round(one.end, 2)) for one in spans]


def test_a_request_that_waited_for_a_swap_names_it_its_phases_and_who_kept_the_slot() -> None:
    found = explain(request(), [SWAP])
    assert shown(found.spans) == [
        ("wait", 0, 5), ("place", 0, 1.24), ("swap", 1.24, 2.24), ("swap", 2.25, 2.5), ("swap", 2.5, 4.5),
        ("swap", 4.5, 5), ("prompt", 5, 5.5), ("answer", 5.5, 8),
    ]  # fmt: skip
    words = [one.words for one in found.spans]
    assert words[0] == "waited until coder was loaded"
    assert words[1].startswith("chat kept the slot")
    assert words[2:6] == [
        "chat ended its requests (swap 7)", "chat stopped and freed its memory (swap 7)",
        "coder started from disk (swap 7)", "coder proved that it answers (swap 7)",
    ]  # fmt: skip
    text = as_text("r", found.facts).splitlines()
    at = next(place for place, line in enumerate(text) if line.startswith("  waited"))
    assert text[at].split(maxsplit=1)[1] == "5.0 s until coder was loaded"
    assert "1.2 s: chat kept the slot" in text[at + 1]


def test_who_kept_the_slot_was_in_use_or_was_kept_though_unused() -> None:
    in_use = "chat kept the slot: in use"
    unused = "chat kept the slot: not in use, but within the time for which it stays loaded"
    for ended, wanted in (
        (1001.0, [(in_use, 0, 1.0), (unused, 1.0, 1.24)]),
        (1001.23, [(in_use, 0, 1.24)]),
        (1003.0, [(in_use, 0, 1.24)]),
        (999.0, [(unused, 0, 1.24)]),
    ):
        user = request(id="u", serve="chat", at=995.0, queued=None, ttft=0.5, latency=ended - 995.0)
        other = request(id="o", serve="bge", at=999.0, queued=None, latency=2.0)
        places = [one for one in explain(request(), [SWAP], [user, other]).spans if one.kind is SpanKind.PLACE]
        assert [(one.words, round(one.start, 2), round(one.end, 2)) for one in places] == wanted


def test_swaps_of_other_slots_and_of_another_time_are_not_named() -> None:
    elsewhere = SwapReport(8, "bge", "gpu1", (), "ready", {"start": 1.0}, at=1003.0)
    later = SwapReport(9, "coder", "gpu0", (), "ready", {"start": 1.0}, at=1200.0)
    spans = explain(request(), [elsewhere, later, SWAP]).spans
    assert not [one for one in spans if "swap 8" in one.words or "swap 9" in one.words]


def test_another_model_that_was_loaded_first_is_named() -> None:
    first = SwapReport(6, "other", "gpu0", ("coder",), "ready", {"drain": 0.2, "stop": 0.3, "start": 0.5}, at=1001.0)
    words = [one.words for one in explain(request(), [SWAP, first]).spans]
    assert words[1:3] == ["coder ended its requests (swap 6)", "coder stopped and freed its memory (swap 6)"]
    assert "other started from disk (swap 6)" in words


def test_a_start_that_failed_says_why() -> None:
    why = "serve 'coder' did not start: no memory"
    failed = SwapReport(5, "coder", "gpu0", (), "failed", {"check": 0.0, "start": 1.5}, error=why, at=1002.0)
    gone = request(attempts=0, outcome="refused", reason="start_failed", queued=2.0, latency=2.0, ttft=None)
    assert explain(gone, [failed]).spans[0].words == "waited for coder, which did not start: no memory"


def test_without_a_swap_it_waited_for_a_place_and_the_requests_that_had_them_are_counted() -> None:
    busy = [request(id=f"o{n}", at=995.0 + n, queued=None, ttft=0.5, latency=6.0) for n in range(3)]
    elsewhere = request(id="x", serve="bge", at=999.0, queued=None)
    before = request(id="y", at=900.0, queued=None)
    found = explain(request(), [], [*busy, elsewhere, before])
    assert found.spans[0].words == "waited for a place of coder, which answered 3 other requests meanwhile"
    assert shown(explain(request()).spans) == [("wait", 0, 5), ("prompt", 5, 5.5), ("answer", 5.5, 8)]


def test_several_tiers_are_shown_one_after_the_other() -> None:
    routed = Routed(
        "chat", "learned", tier="big",
        attempts=[Attempt("small", "upstream_busy", seconds=2.0), Attempt("big", "served", seconds=6.0)],
    )  # fmt: skip
    spans = explain(request(serve="big", attempts=2, routed=routed)).spans
    assert shown(spans) == [("attempt", 0, 2), ("attempt", 2, 8), ("prompt", 2, 5.5), ("answer", 5.5, 8)]
    assert spans[0].words == "small: upstream_busy (the engine had too much to do)"


def test_a_request_that_went_to_its_fallback_shows_both_attempts() -> None:
    tried = [
        Attempt(outcome="upstream_error", seconds=2.0, serve="big"),
        Attempt("", "served", seconds=6.0, serve="small"),
    ]
    candidates = [Candidate("big", "upstream_error"), Candidate("small")]
    explained = explain(
        request(model="big", serve="small", attempts=2, tried=tried, candidates=candidates, queued=None)
    )
    assert shown(explained.spans) == [("attempt", 0, 2), ("attempt", 2, 8), ("prompt", 2, 5.5), ("answer", 5.5, 8)]
    words = [fact.words for fact in explained.facts]
    assert any(one.startswith("big: ") and one.endswith(" after 2.0 s") for one in words)
    assert "small: served after 6.0 s" in words


def test_a_wait_that_ended_without_a_lease_is_all_of_its_time() -> None:
    gone = request(attempts=0, outcome="client_left", queued=None, ttft=None, latency=3.0)
    assert shown(explain(gone).spans) == [("wait", 0, 3)]
    refused = request(attempts=0, outcome="refused", reason="unknown_model", serve="", queued=None, ttft=0.0, latency=0)
    assert explain(refused).spans == []


def test_nothing_begins_before_its_start_or_lasts_longer_than_the_request() -> None:
    for changes in ({"queued": 9.0}, {"ttft": 0.1}, {"latency": 0.0}, {"latency": None}, {"stream": False}):
        spans = explain(request(**changes), [SWAP]).spans
        assert all(0 <= one.start <= one.end <= 8.0 for one in spans), changes
        assert all(one.kind is not SpanKind.PROMPT for one in spans if changes == {"stream": False})


def test_an_answer_that_came_whole_has_no_first_token_and_says_so() -> None:
    found = explain(request(stream=False, ttft=None), [SWAP])
    assert "first token  not timed: the answer came whole" in as_text("r", found.facts)
    assert shown(found.spans)[-1] == ("answer", 5, 8)
    assert found.spans[-1].words.endswith(" answered")


@pytest.mark.parametrize(("output_tokens", "latency", "shown"), [(21, 10.5, True), (4, 10.5, False), (21, 5.54, False)])
def test_a_rate_is_shown_only_of_answers_that_are_long_enough_to_tell(
    output_tokens: int, latency: float, shown: bool
) -> None:
    found = explain(request(ttft=5.5, input_tokens=9, output_tokens=output_tokens, latency=latency))
    assert (" tokens/s after the first" in as_text("r", found.facts)) is shown


def test_what_a_translation_lost_is_said_in_words_and_so_are_error_codes() -> None:
    text = as_text("r", explain(request(translation="model,lossy:name", candidates=[
        Candidate("slow", "queue_full"), Candidate("coder")])).facts)  # fmt: skip
    assert "lost         name: the participant's name is dropped, because only chat names participants" in text
    assert "slow: dropped: queue_full (its queue was full)" in text
    assert "'gpt-4o' is another name for it" in as_text("r", explain(request(model="gpt-4o")).facts)


# -- what is kept of it ------------------------------------------------------------------------------------------------


def test_what_it_waited_for_is_kept_with_the_decision_and_explains_it_without_any_memory() -> None:
    user = request(id="u", serve="chat", at=995.0, queued=None, ttft=0.5, latency=6.0)
    known = explain(request(), [SWAP], [user])
    kept = msgspec.json.decode(msgspec.json.encode(with_waits(request(), [SWAP], [user])), type=Decision)
    assert explain(kept).spans == known.spans
    assert as_text("r", explain(kept).facts) == as_text("r", known.facts)
    assert explain(kept, [SwapReport(99, "coder", "gpu0", (), "ready", at=1003.0)]).spans == known.spans, (
        "swaps of another run"
    )


def test_a_request_that_did_not_wait_is_kept_as_it_is() -> None:
    one = request(queued=None)
    assert with_waits(one, [SWAP], []) is one


def test_nothing_that_an_engine_printed_is_kept_but_what_to_do_is() -> None:
    failed = SwapReport(
        5, "coder", "gpu0", (), "failed", {"start": 1.5}, error="the user said: my password is hunter2", at=1002.0
    )
    gone = request(
        attempts=0, outcome="upstream_failed", reason="bad_weights", queued=None, latency=2.0, ttft=None, status=503,
        remedy="download them again; `stoker serves logs coder` has its log",
    )  # fmt: skip
    kept = with_waits(gone, [failed], [])
    assert kept.waits[0].words == "waited for coder, which did not start"
    assert b"hunter2" not in msgspec.json.encode(kept)
    text = as_text("r", explain(kept).facts)
    assert "upstream_failed: no model server was there to ask" in text
    assert "because bad_weights (the weights are damaged)" in text
    assert "what to do   download them again; `stoker serves logs coder` has its log" in text


@pytest.mark.parametrize(("model", "words"), [("", "no model, without a key"), ("coder", "'coder', without a key")])
def test_a_request_whose_model_was_not_read_asked_for_none(model: str, words: str) -> None:
    assert f"  asked for    {words}\n" in as_text("r", facts(request(model=model)))
