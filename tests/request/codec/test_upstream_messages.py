"""What a serve says about its failure is shown: its words, without secrets, and not too many."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, cast

import pytest
from tests.linear import assert_linear

from stoker.domain.errors import ClientError, StokerError, UpstreamError
from stoker.request.codec.upstream_messages import MOST, UpstreamMessages, next_match, reason_of


@pytest.mark.parametrize(
    "body",
    [{"error": {"message": "no memory"}}, {"error": "no memory"}, {"message": "no memory"}, {"detail": "no memory"},
     {"detail": [{"msg": "no memory"}]}, {"type": "error", "error": {"type": "api_error", "message": "no memory"}}],
)  # fmt: skip
def test_every_usual_form_is_read(body: Any) -> None:
    assert reason_of(json.dumps(body).encode()) == "no memory"


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"no memory\n", "no memory"), (b"", ""), (b"null", ""), (b'{"why":1}', '{"why": 1}'),
     (b"<html><style>x</style><h1>Bad Gateway</h1><script>1<2", "Bad Gateway")],
)  # fmt: skip
def test_text_and_pages_are_read_too(body: bytes, said: str) -> None:
    assert " ".join(reason_of(body).split()) == said


def test_control_characters_and_secrets_are_taken_out_before_it_is_cut() -> None:
    words = UpstreamMessages(secrets=["sk-very/secret"])
    error = words.for_client(
        UpstreamError("m", upstream_message="a\x1b[31m\u202eb\nc sk-very/secret sk-very%2Fsecret " + "x" * 9000)
    )
    assert error.message.startswith("a[31mb c [redacted] [redacted] xx")
    assert (len(error.message.encode()), error.source, error.upstream_message) == (MOST, "upstream", "")


@pytest.mark.parametrize("at", range(2030, 2050))
def test_no_part_of_a_secret_is_left_by_the_cut(at: int) -> None:
    told = UpstreamMessages(secrets=["S" * 40]).for_client(UpstreamError("m", upstream_message="x" * at + "S" * 40))
    assert "S" not in told.message


def test_where_reasons_are_hidden_a_callers_own_fault_is_told_all_the_same() -> None:
    words = UpstreamMessages(shows_messages=False)
    hidden = words.for_client(UpstreamError("the serve failed", upstream_message="inner"))
    assert (hidden.message, hidden.source) == ("the serve failed", "stoker")
    assert words.for_client(ClientError("too long", source="upstream")).message == "too long"


def test_stokers_own_errors_stay_as_they_are() -> None:
    error: StokerError = UpstreamMessages(secrets=["secret"]).for_client(ClientError("the secret of success"))
    assert (error.message, error.source) == ("the secret of success", "stoker")


def test_a_secret_that_comes_while_another_thread_redacts_is_hidden_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = UpstreamMessages(secrets=["first-secret"])
    compiled = re.compile

    def slow(pattern: str) -> re.Pattern[str]:
        monkeypatch.undo()
        messages.add_secret("second-secret")
        return compiled(pattern)

    monkeypatch.setattr(re, "compile", slow)
    messages.redacted("a text")
    assert messages.redacted("first-secret second-secret") == "[redacted] [redacted]"


@pytest.mark.parametrize("before", range(-20, 21))
def test_a_secret_is_hidden_wherever_in_a_long_text_it_stands(before: int) -> None:
    messages = UpstreamMessages(secrets=["secret/of-twenty", "secret"])
    filler = "a" * (64 * 1024 + before)
    assert messages.redacted(f"{filler}secret/of-twenty b secret") == f"{filler}[redacted] b [redacted]"


def test_no_search_is_so_long_that_other_threads_wait_for_it() -> None:
    spans = []

    class Watched:
        def search(self, text: str, at: int, end: int) -> None:
            spans.append((at, end))

    assert next_match(cast("re.Pattern[str]", Watched()), "a" * 1_000_000, 10, 50) is None
    assert max(end - at for at, end in spans) < 100_000
    assert spans[0][0] == 10
    assert all(before >= after + 50 for (_, before), (after, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(("head", "piece"), [(b"<html>", b"<"), (b"<html>", b"<script"), (b"", b"[")])
def test_hostile_bodies_cost_linear_time(head: bytes, piece: bytes) -> None:
    assert_linear(lambda size: head + piece * (size // len(piece)), reason_of, 500_000)
