"""What sessions of real agents showed (`python -m bench.agents`), in small."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from tests.request.translate.capable import capabilities_of

from stoker.domain.answer import Answer, BlockKind, Closed, Event, Grew, Opened
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import ToolCall
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.restore import AnswerRestorer, once, unwrapped
from stoker.request.translate.translate import read_prompt, write_prompt
from stoker_lab.testing.script import ask
from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.strict.strictness import refusal

SIGNER = ThinkingSigner((b"k" * 32,))
HELLO = [{"role": "user", "content": "hi"}]
CLAUDE_CODE_USER = json.dumps({"device_id": "0" * 64, "account_uuid": "", "session_id": "1" * 36})
SCHEMA = {"type": "object", "properties": {}}


def lost(dialect: Dialect, **fields: Any) -> list[str]:
    content = "input" if dialect is Dialect.RESPONSES else "messages"
    body = {"model": "a", "max_tokens": 9, content: HELLO, **fields}
    if dialect is Dialect.RESPONSES:
        del body["max_tokens"]
    return list(read_prompt(dialect, json.dumps(body).encode())[1].codes)


# -- Codex ----------------------------------------------------------------------------------------------------


def test_codexs_ids_for_its_own_books_are_no_loss() -> None:
    assert lost(Dialect.RESPONSES, client_metadata={"session_id": "s"}) == []
    assert lost(Dialect.RESPONSES, something={"session_id": "s"}) == ["unknown_field"]


def test_tools_may_come_as_an_item_of_the_input() -> None:
    run = {"type": "custom", "name": "exec", "description": "JavaScript"}
    wait = {"type": "function", "name": "wait", "parameters": SCHEMA, "strict": False}
    item = {"type": "additional_tools", "role": "developer", "tools": [
        {"type": "namespace", "name": "functions", "tools": [run, wait]}, {"type": "web_search"},
    ]}  # fmt: skip
    given = {
        "model": "a",
        "input": [item, *HELLO],
        "tools": [{"type": "function", "name": "own", "parameters": SCHEMA}],
    }
    prompt, losses = read_prompt(Dialect.RESPONSES, json.dumps(given).encode())
    found = [(tool.name, tool.namespace, tool.custom) for tool in prompt.tools]
    assert found == [("own", "", False), ("functions.exec", "functions", True), ("functions.wait", "functions", False)]
    assert len(prompt.turns) == 1
    assert list(losses.codes) == ["server_tools"]


# -- Claude Code ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "codes"),
    [
        ([{"type": "clear_thinking_20251015", "keep": "all"}], []),
        ([{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}], ["unknown_field"]),
        ([{"type": "clear_tool_uses_20250919"}], ["unknown_field"]),
    ],
)
def test_that_all_thinking_is_kept_need_not_be_asked_for(edits: list[dict[str, Any]], codes: list[str]) -> None:
    assert lost(Dialect.MESSAGES, context_management={"edits": edits}) == codes


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES])
def test_openai_gets_a_hash_of_a_users_id_that_it_would_refuse(dialect: Dialect) -> None:
    given = {"model": "a", "max_tokens": 9, "messages": HELLO, "metadata": {"user_id": CLAUDE_CODE_USER}}
    prompt, losses = read_prompt(Dialect.MESSAGES, json.dumps(given).encode())
    written = write_prompt(prompt, losses, capabilities_of("openai", dialect, cloud=True), SIGNER)
    assert json.loads(written.body)["user"] == hashlib.sha256(CLAUDE_CODE_USER.encode()).hexdigest()
    assert not written.losses.codes
    assert prompt.settings["user"] == CLAUDE_CODE_USER


def test_a_short_id_of_a_user_stays_and_anthropic_gets_any() -> None:
    body = json.dumps({"model": "a", "messages": HELLO, "user": "me"}).encode()
    cloud = capabilities_of("openai", Dialect.RESPONSES, cloud=True)
    assert json.loads(write_prompt(*read_prompt(Dialect.CHAT, body), cloud, SIGNER).body)["user"] == "me"
    body = json.dumps({"model": "a", "messages": HELLO, "user": CLAUDE_CODE_USER}).encode()
    anthropic = capabilities_of("openai", Dialect.MESSAGES, cloud=True)
    written = json.loads(write_prompt(*read_prompt(Dialect.CHAT, body), anthropic, SIGNER).body)
    assert written["metadata"] == {"user_id": CLAUDE_CODE_USER}


def test_the_strict_server_refuses_such_an_id_as_openai_does() -> None:
    body = json.dumps({"model": "a", "messages": HELLO, "user": "u" * 65}).encode()
    path = Dialect.CHAT.spec.path
    said = refusal(
        Script(strict_chat=True), path, RecordedRequest("POST", path, (), body), ask.read_request(Dialect.CHAT, body)
    )
    assert said == "Invalid 'user': string too long. Expected a string with maximum length 64."


# -- arguments in a string ------------------------------------------------------------------------------------


def streamed(*pieces: str, custom: frozenset[str] = frozenset()) -> list[Event]:
    restore = AnswerRestorer({}, custom)
    events = [Opened(0, BlockKind.CALL, "t", "run"), *(Grew(0, piece) for piece in pieces), Closed(0)]
    return [out for event in events for out in restore.feed(event)][1:-1]


TWICE = json.dumps('{"cmd": "ls"}')


@pytest.mark.parametrize("size", [1, 3, 100])
def test_arguments_that_came_as_a_string_are_unwrapped_for_every_client(size: int) -> None:
    pieces = [TWICE[at : at + size] for at in range(0, len(TWICE), size)]
    assert streamed(*pieces) == [Grew(0, '{"cmd": "ls"}')]
    assert streamed(" ", *pieces) == [Grew(0, '{"cmd": "ls"}')]
    answer = Answer("", "", [ToolCall("t", "run", TWICE)])
    AnswerRestorer({}, frozenset()).restore_whole(answer)
    assert answer.blocks == [ToolCall("t", "run", '{"cmd": "ls"}')]


def test_other_arguments_go_on_piece_by_piece_as_soon_as_they_are_seen_to_be_no_string() -> None:
    assert streamed("", " ", '{"cmd"', ': "ls"}') == [Grew(0, ' {"cmd"'), Grew(0, ': "ls"}')]
    assert streamed('"ls') == [Grew(0, '"ls')]
    assert streamed('"ls"') == [Grew(0, '"ls"')]
    assert streamed() == []
    assert once("3") == "3"


def test_a_custom_tools_text_is_found_in_a_string_too() -> None:
    twice = json.dumps(json.dumps({"input": "any text"}))
    assert streamed(twice[:5], twice[5:], custom=frozenset(("run",))) == [Grew(0, "any text")]
    assert unwrapped(twice) == "any text"
