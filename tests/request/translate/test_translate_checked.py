"""Answers that are looked at on their way: held back, gone on with, or only watched."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stoker.domain.answer import Answer, BlockKind, Closed, Event, Finished, Grew, Opened, StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.errors import REJECTED, UpstreamError
from stoker.request.translate.checked_reply import CheckedReply
from stoker.request.translate.neutral.block_sequencer import BlockSequencer
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.pass_through import is_plain
from stoker.request.translate.translate import AnswerTranslator, read_prompt, write_prompt

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SIGNER = ThinkingSigner((b"k" * 32,))


class Strict:
    """Fails at a call of `wrong`, and lets nothing out from then on."""

    def __init__(self) -> None:
        self.is_failed = False

    def feed(self, event: Event) -> Iterable[Event]:
        self.is_failed = self.is_failed or (isinstance(event, Opened) and event.name == "wrong")
        return () if self.is_failed else (event,)

    def judge(self, answer: Answer) -> None:
        self.is_failed = any(getattr(block, "name", "") == "wrong" for block in answer.blocks)

    def failed_checks(self) -> tuple[str, ...]:
        return ("unknown_tool",) if self.is_failed else ()


def translator(check: Strict | None) -> AnswerTranslator:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
    prompt, losses = read_prompt(Dialect.CHAT, json.dumps(body).encode())
    written = write_prompt(prompt, losses, Capabilities(Dialect.CHAT), SIGNER)
    return AnswerTranslator(Dialect.CHAT, written, AnswerContext(prompt, "req", 1, SIGNER, "m"), (), check)


def piece(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def a_call(name: str, index: int = 0) -> list[dict[str, Any]]:
    return [{"index": index, "id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}]


def usage(prompt: int, completion: int) -> bytes:
    counted = {"prompt_tokens": prompt, "completion_tokens": completion}
    return b"data: %b\n\n" % json.dumps({"id": "c", "choices": [], "usage": counted}).encode()


DONE = b"data: [DONE]\n\n"


def test_what_is_wrong_is_not_let_out_and_what_came_before_it_is() -> None:
    answer = translator(Strict())
    out = answer.feed(piece(content="let me see"))
    assert b"let me see" in out
    assert (answer.rejected, answer.error) == (None, None)
    assert answer.feed(piece(tool_calls=a_call("wrong"))).count(b"wrong") == 0
    assert answer.rejected is not None
    assert (answer.rejected.code, answer.error) == (REJECTED, answer.rejected)
    assert "unknown_tool" in answer.rejected.message


def test_usage_counts_also_of_what_is_not_let_out() -> None:
    answer = translator(Strict())
    answer.feed(piece(tool_calls=a_call("wrong")) + piece("tool_calls") + usage(9, 4) + DONE)
    assert (answer.usage.input, answer.usage.output) == (9, 4)
    assert not answer.is_meaningful


def test_a_whole_answer_is_judged_before_it_is_written() -> None:
    def whole(name: str) -> bytes:
        message = {"role": "assistant", "content": None, "tool_calls": a_call(name)}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return translator(Strict()).translate_whole(json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode())

    assert b'"look"' in whole("look")
    with pytest.raises(UpstreamError, match="unknown_tool"):
        whole("wrong")


def test_an_answer_goes_on_with_the_calls_of_another_reply_and_nothing_else_of_it() -> None:
    answer = translator(Strict())
    answer.feed(piece(content="let me see") + piece(tool_calls=a_call("wrong")))
    assert answer.can_continue
    answer.continue_with(Strict())
    assert (answer.rejected, answer.error, answer.is_meaningful) == (None, None, False)
    early = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":0}}\n\n'
    out = answer.feed(early + piece(content="sorry") + piece(tool_calls=a_call("look")))
    out += answer.feed(piece("tool_calls") + usage(20, 6) + DONE)
    assert (b"sorry" in out, b'"look"' in out, out.count(b'"finish_reason":"tool_calls"')) == (False, True, 1)
    assert (answer.usage.input, answer.usage.output) == (20, 6)
    assert answer.has_ended()
    assert not answer.can_continue, "a call went out"


def test_a_reply_without_a_call_cannot_stand_for_a_wrong_one() -> None:
    answer = translator(Strict())
    answer.feed(piece(content="let me see") + piece(tool_calls=a_call("wrong")))
    answer.continue_with(None)
    out = answer.feed(piece(content="never mind") + piece("stop") + DONE)
    assert (out.count(b"never mind"), out.count(b'finish_reason":"stop')) == (0, 0)
    assert answer.rejected is not None
    assert (answer.rejected.code, answer.error) == (REJECTED, answer.rejected)


def test_what_the_other_reply_counts_at_its_beginning_is_taken_over() -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
    prompt, losses = read_prompt(Dialect.CHAT, json.dumps(body).encode())
    written = write_prompt(prompt, losses, Capabilities(Dialect.MESSAGES), SIGNER)
    answer = AnswerTranslator(Dialect.MESSAGES, written, AnswerContext(prompt, "req", 1, SIGNER, "m"))
    answer.continue_with(None)
    message = {"id": "m", "model": "m", "usage": {"input_tokens": 7, "output_tokens": 1}}
    answer.feed(b"data: %b\n\n" % json.dumps({"type": "message_start", "message": message}).encode())
    assert answer.usage.input == 7


def test_what_the_first_reply_used_is_not_counted_for_the_other() -> None:
    """Each is a call of the serve on its own, and the other may break off before it says what it used."""
    answer = translator(Strict())
    answer.feed(piece(content="let me see") + piece(tool_calls=a_call("wrong")) + usage(20, 6))
    answer.continue_with(Strict())
    assert (answer.usage.input, answer.usage.output, answer.tokens_so_far()) == (None, None, 0)


def test_nothing_can_go_on_before_it_has_begun() -> None:
    assert not translator(None).can_continue


def test_the_numbers_of_blocks_go_on_too() -> None:
    sequence = BlockSequencer(2)
    assert sequence.is_idle
    (opened,) = sequence.feed(Opened(0, BlockKind.TEXT))
    assert isinstance(opened, Opened)
    assert (opened.at, sequence.is_idle) == (2, False)
    sequence.feed(Opened(1, BlockKind.CALL))
    sequence.feed(Grew(1, "{}"))
    assert [type(event) for event in sequence.feed(Finished(StopReason.END))] == [
        Closed,
        Opened,
        Grew,
        Closed,
        Finished,
    ]
    assert sequence.is_idle


# -- watched ---------------------------------------------------------------------------------------------------------


def test_what_is_watched_passes_byte_for_byte() -> None:
    check = Strict()
    watched = CheckedReply(Dialect.CHAT, False, check)
    data = piece(role="assistant") + piece(content="x") + piece(tool_calls=a_call("wrong")) + b"data: 7\n\n"
    assert watched.feed(data) == data
    assert (watched.is_meaningful, watched.error, watched.rejected) == (True, None, None)
    end = piece("stop") + usage(3, 2) + DONE
    assert watched.feed(end) + watched.take_rest() == end
    assert (watched.has_ended(), watched.position().sequence) == (True, 0)
    assert (watched.usage.input, watched.usage.output) == (3, 2)
    assert (check.is_failed, watched.describe_changes()) == (True, b"")


def test_a_whole_answer_that_is_watched_is_the_serves_own() -> None:
    check = Strict()
    watched = CheckedReply(Dialect.CHAT, False, check)
    message = {"role": "assistant", "content": None, "tool_calls": a_call("wrong")}
    document = {"choices": [{"message": message}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    body = json.dumps(document, indent=1).encode()
    assert (watched.translate_whole(body), check.is_failed, watched.usage.input) == (body, True, 3)
    watched.is_meaningful = True
    assert watched.is_meaningful


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"choices":[]}', b"no JSON", b'{"error":"boom"}'])
def test_a_whole_answer_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamError, match="answered HTTP 200, but the reply") as caught:
        CheckedReply(Dialect.CHAT, False, Strict()).translate_whole(body)
    assert caught.value.code == "upstream_unusable"


@pytest.mark.parametrize(
    ("dialect", "local", "plain"),
    [
        (Dialect.CHAT, True, True), (Dialect.MESSAGES, True, False), (Dialect.RESPONSES, True, False),
        (Dialect.CHAT, False, False), (Dialect.MESSAGES, False, False), (Dialect.RESPONSES, False, False),
    ],
)  # fmt: skip
def test_who_never_needs_a_look_into_a_body(dialect: Dialect, local: bool, plain: bool) -> None:
    assert is_plain(Capabilities(dialect, local=local)) is plain
