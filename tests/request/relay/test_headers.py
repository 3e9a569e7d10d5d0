"""Credentials and what belongs to one connection stay where they are."""

from __future__ import annotations

import pytest

from stoker.domain.errors import ClientError
from stoker.domain.lease import Target
from stoker.request.codec.upstream_errors import as_error
from stoker.request.codec.upstream_messages import UpstreamMessages
from stoker.request.relay import faults
from stoker.request.relay.headers import reply_headers, request_head, retry_after

TARGET = Target("10.0.0.5", 8001, "/base", "m", key="serve-key")
SECRET = ["authorization", "x-api-key", "api-key", "proxy-authorization", "cookie"]
OWN = ["host", "origin", "referer", "x-forwarded-for", "forwarded", "x-request-id", "connection", "transfer-encoding",
       "te", "trailer", "upgrade", "content-length", "expect", "keep-alive"]  # fmt: skip


def head(*headers: tuple[bytes, bytes], plain: bool = False, target: Target = TARGET) -> bytes:
    return request_head(b"POST", "/v1/x?q=1", target, headers, 7, plain)


def test_the_head_is_the_serves_own() -> None:
    assert head((b"content-type", b"application/json"), (b"anthropic-version", b"2023")) == (
        b"POST /base/v1/x?q=1 HTTP/1.1\r\nhost: 10.0.0.5:8001\r\ncontent-type: application/json\r\n"
        b"anthropic-version: 2023\r\nauthorization: Bearer serve-key\r\ncontent-length: 7\r\n\r\n"
    )


def test_nothing_of_the_clients_own_goes_on() -> None:
    given = [(name.encode(), b"client-value") for name in (*SECRET, *OWN)]
    found = head(*given, target=Target("h", 1, "", "m"))
    assert found == b"POST /v1/x?q=1 HTTP/1.1\r\nhost: h:1\r\ncontent-length: 7\r\n\r\n"


def test_compression_is_asked_for_only_where_it_may_come() -> None:
    assert b"accept-encoding: gzip" in head((b"accept-encoding", b"gzip"))
    assert b"accept-encoding" not in head((b"accept-encoding", b"gzip"), plain=True)


@pytest.mark.parametrize("between", [(), ((b"x-a", b"1"),)])
def test_of_several_accept_encodings_one_is_sent_with_what_is_read(between: tuple[tuple[bytes, bytes], ...]) -> None:
    sent = head(
        (b"x-first", b"0"), (b"accept-encoding", b"br"), *between, (b"accept-encoding", b"gzip"), (b"x-b", b"2")
    )
    lines = sent.split(b"\r\n")
    assert lines[-2:] == [b"", b""]
    assert b"" not in lines[:-2]
    assert [line for line in lines if line.startswith(b"accept-encoding")] == [b"accept-encoding: gzip"]
    assert {b"x-first: 0", b"x-b: 2", *(b"%b: %b" % one for one in between)} < set(lines)


def test_of_a_reply_only_what_is_the_clients_comes_back() -> None:
    given = [(b"content-type", b"a"), (b"x-own", b"b"), (b"set-cookie", b"c"), (b"content-length", b"3"),
             (b"connection", b"close"), (b"server", b"s"), (b"access-control-allow-origin", b"*"),
             (b"x-request-id", b"theirs"), (b"transfer-encoding", b"chunked"),
             (b"content-encoding", b"gzip")]  # fmt: skip
    assert reply_headers(given) == [(b"content-type", b"a"), (b"x-own", b"b"), (b"content-encoding", b"gzip")]


def test_retry_after_of_a_busy_serve_is_kept_within_reason() -> None:
    for said, kept in ((b"7", 7.0), (b"soon", 1.0), (b"9" * 400, 3600.0), (b"-1", 1.0)):
        error = faults.from_status(503, [(b"x", b"y"), (b"retry-after", said)])
        assert error is not None
        assert error.retry_after == kept


def test_a_frame_that_is_the_callers_fault_keeps_its_words_shortened() -> None:
    error = UpstreamMessages().for_client(as_error({"error": {"code": 413, "message": "w" * 5000}}))
    assert (error.status, error.source, len(error.message)) == (413, "upstream", 2048)
    assert as_error({"error": {"code": "413", "message": "m"}}).status == 413
    for other in (
        {"error": {"code": 413}},
        {"type": "error", "message": "m"},
    ):
        assert as_error(other).status == 502


def test_retry_after_is_read_in_both_its_forms() -> None:
    now = 1_800_000_000.0
    date, later = b"Fri, 15 Jan 2027 08:00:00 GMT", b"Fri, 15 Jan 2027 08:00:45 GMT"
    for given, seconds in (
        ([(b"retry-after", b"7")], 7.0),
        ([(b"retry-after", b" 1.5 ")], 1.5),
        ([(b"retry-after", b"99999999")], 3600.0),
        ([(b"retry-after", later), (b"date", date)], 45.0),
        ([(b"retry-after", later)], 45.0),
        ([(b"retry-after", later.lower())], 45.0),
        ([(b"retry-after", date), (b"date", later)], 0.0),
        ([(b"retry-after", b"soon")], None),
        ([(b"retry-after", b"-3")], None),
        ([(b"retry-after", b"\xff" * 30)], None),
        ([], None),
    ):
        assert retry_after(given, now) == seconds, given


def test_what_connection_nominates_is_for_the_next_hop_only() -> None:
    given = [(b"connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"x-end", b"2")]
    assert b"x-hop" not in head(*given)
    assert b"x-end: 2" in head(*given)
    assert reply_headers(given) == [(b"x-end", b"2")]


def test_a_serve_can_neither_send_the_client_elsewhere_nor_speak_as_stoker() -> None:
    given = [(b"location", b"http://evil"), (b"x-stoker-serve", b"x"), (b"proxy-authenticate", b"Basic")]
    assert reply_headers(given) == []
    error = faults.from_status(302, given)
    assert error is not None
    assert (error.status, error.code) == (502, "upstream_redirect")


def test_what_another_stoker_forwarded_is_not_forwarded_again() -> None:
    elsewhere, here = Target("box2", 8000, served_name="big", is_replica_elsewhere=True), Target("127.0.0.1", 8000)
    assert b"\r\nx-stoker-forwarded: 1\r\n" in request_head(b"POST", "/v1/x", elsewhere, [], 0, True)
    came = [(b"x-stoker-forwarded", b"1")]
    with pytest.raises(ClientError) as refused:
        request_head(b"POST", "/v1/x", elsewhere, came, 0, True)
    assert (refused.value.status, refused.value.code) == (508, "forwarded_twice")
    assert b"forwarded" not in request_head(b"POST", "/v1/x", here, came, 0, True)


def test_only_another_stoker_gets_what_names_a_session_for_stoker() -> None:
    came = ((b"x-stoker-session", b"s"), (b"x-stoker-parent-session", b"p"), (b"session_id", b"i"))
    assert b"x-stoker" not in head(*came)
    assert b"session_id: i" in head(*came)
    elsewhere = Target("box2", 8000, served_name="big", is_replica_elsewhere=True)
    assert b"x-stoker-session: s\r\nx-stoker-parent-session: p" in head(*came, target=elsewhere)
