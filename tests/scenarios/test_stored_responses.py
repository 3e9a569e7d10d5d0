"""Stored responses, through the openai SDK: across a restart, with another key, with serves of two dialects."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.scenarios.plane import Plane, running, serve

KEYS = """[[front_door.keys]]
name = "ann"
value = "env:KEY_OF_ANN"
[[front_door.keys]]
name = "bob"
value = "env:KEY_OF_BOB"
"""
SERVES = (serve("native"), serve("chatty", dialects=["chat"], slot="gpu1"))
SLOTS = "[slots.gpu0]\n[slots.gpu1]"
DIALECTS = pytest.mark.parametrize("model", ["native", "chatty"])
PATHS = {"native": "/v1/responses", "chatty": "/v1/chat/completions"}


ENVIRONMENT = {f"KEY_OF_{name.upper()}": f"sk-{name}-0123456789abcdef" for name in ("ann", "bob")}


def a_plane(stores: bool) -> AbstractContextManager[Plane]:
    table = "[responses]\nstore = true" if stores else ""
    return running(*SERVES, KEYS, table, slots=SLOTS, environment=ENVIRONMENT, keeps_engines=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with a_plane(True) as plane:
        yield plane


def client(plane: Plane, name: str = "ann") -> openai.OpenAI:
    key = f"sk-{name}-0123456789abcdef"
    return openai.OpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key=key, max_retries=0, timeout=30)


def last_asked(plane: Plane, model: str) -> str:
    return str(plane.received(model, PATHS[model])[-1])


@DIALECTS
def test_a_response_continues_another_by_its_id_and_the_serve_gets_all_turns(plane: Plane, model: str) -> None:
    with client(plane) as ann:
        first = ann.responses.create(model=model, input="the first question")
        assert first.id.startswith("resp_")
        second = ann.responses.create(model=model, input="the second question", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        asked = last_asked(plane, model)
        assert "the first question" in asked
        assert first.output_text in asked
        assert "the second question" in asked
        assert "previous_response_id" not in asked
        assert ann.responses.retrieve(second.id).output_text == second.output_text
        listed = list(ann.responses.input_items.list(second.id, order="asc"))
        assert [item.type for item in listed] == ["message", "message", "message"]


@DIALECTS
def test_a_stream_is_stored_before_its_client_reads_the_last_event(plane: Plane, model: str) -> None:
    with client(plane) as ann, ann.responses.stream(model=model, input="stream to me") as stream:
        for event in stream:
            if event.type == "response.completed":
                assert ann.responses.retrieve(event.response.id).output_text == event.response.output_text
        final = stream.get_final_response()
        assert ann.responses.retrieve(final.id).id == final.id


def test_another_key_sees_nothing(plane: Plane) -> None:
    with client(plane) as ann, client(plane, "bob") as bob:
        first = ann.responses.create(model="native", input="a secret of ann")
        talk = ann.conversations.create(items=[{"type": "message", "role": "user", "content": "a secret"}])
        for attempt in (
            lambda: bob.responses.retrieve(first.id),
            lambda: bob.responses.delete(first.id),
            lambda: bob.responses.input_items.list(first.id),
            lambda: bob.conversations.retrieve(talk.id),
            lambda: bob.conversations.items.list(talk.id),
            lambda: bob.conversations.delete(talk.id),
        ):
            with pytest.raises(openai.NotFoundError):
                attempt()
        with pytest.raises(openai.APIStatusError, match="not found") as caught:
            bob.responses.create(model="native", input="go on", previous_response_id=first.id)
        assert caught.value.status_code in (400, 404)
        with pytest.raises(openai.NotFoundError):
            bob.responses.create(model="native", input="go on", conversation=talk.id)
        assert ann.responses.retrieve(first.id).id == first.id


def test_a_deleted_response_is_gone(plane: Plane) -> None:
    with client(plane) as ann:
        first = ann.responses.create(model="native", input="to be deleted")
        ann.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            ann.responses.retrieve(first.id)


def test_store_false_is_never_written(plane: Plane) -> None:
    with client(plane) as ann:
        first = ann.responses.create(model="native", input="an unwritten riddle", store=False)
        with pytest.raises(openai.NotFoundError):
            ann.responses.retrieve(first.id)
    for file in (plane.state / "responses").iterdir():
        assert b"an unwritten riddle" not in file.read_bytes()


@DIALECTS
def test_a_conversation_grows_with_each_response(plane: Plane, model: str) -> None:
    with client(plane) as ann:
        talk = ann.conversations.create(metadata={"topic": "tea"})
        ann.responses.create(model=model, input="how long does it steep", conversation=talk.id)
        ann.responses.create(model=model, input="and how hot", conversation=talk.id)
        assert "how long does it steep" in last_asked(plane, model)
        items = list(ann.conversations.items.list(talk.id, order="asc"))
        assert len(items) == 4
        assert ann.conversations.items.retrieve(items[0].id or "", conversation_id=talk.id).id == items[0].id
        ann.conversations.items.delete(items[0].id or "", conversation_id=talk.id)
        added: Any = [{"type": "message", "role": "user", "content": "one more"}]
        assert len(ann.conversations.items.create(talk.id, items=added).data) == 1
        assert len(list(ann.conversations.items.list(talk.id))) == 4
        assert ann.conversations.update(talk.id, metadata={"topic": "ice"}).metadata == {"topic": "ice"}
        assert ann.conversations.delete(talk.id).deleted
        with pytest.raises(openai.NotFoundError):
            ann.conversations.retrieve(talk.id)


def test_the_files_are_private(plane: Plane) -> None:
    with client(plane) as ann:
        ann.responses.create(model="native", input="private")
    folder: Path = plane.state / "responses"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_responses_outlive_a_restart() -> None:
    with a_plane(True) as plane:
        with client(plane) as ann:
            first = ann.responses.create(model="chatty", input="remember the teapot")
        plane.finish()
        plane.start()
        with client(plane) as ann:
            ann.responses.create(model="chatty", input="what was it", previous_response_id=first.id)
            assert "remember the teapot" in last_asked(plane, "chatty")


def test_without_the_setting_the_answer_names_it() -> None:
    with a_plane(False) as plane, client(plane) as ann:
        for attempt in (
            lambda: ann.responses.retrieve("resp_1"),
            lambda: ann.conversations.create(),
            lambda: ann.responses.create(model="chatty", input="go on", previous_response_id="resp_1"),
            lambda: ann.responses.create(model="chatty", input="go on", conversation="conv_1"),
        ):
            with pytest.raises(openai.APIStatusError, match=r"`store = true` under \[responses\]"):
                attempt()
        assert not (plane.state / "responses").exists()


@DIALECTS
def test_tokens_are_counted_with_the_stored_turns_and_nothing_is_stored(plane: Plane, model: str) -> None:
    with client(plane) as ann:
        alone = ann.responses.input_tokens.count(model=model, input="and the next one")
        assert alone.object == "response.input_tokens"
        first = ann.responses.create(model=model, input="a question of five words")
        talk = ann.conversations.create(items=[{"type": "message", "role": "user", "content": "two words"}])
        size = len(list(ann.conversations.items.list(talk.id)))
        longer = ann.responses.input_tokens.count(model=model, input="and the next one", previous_response_id=first.id)
        assert longer.input_tokens > alone.input_tokens > 0
        more = ann.responses.input_tokens.count(model=model, input="and the next one", conversation=talk.id)
        assert more.input_tokens > alone.input_tokens
        assert len(list(ann.conversations.items.list(talk.id))) == size
        with pytest.raises(openai.APIStatusError, match="not found"):
            ann.responses.input_tokens.count(model=model, input="go on", previous_response_id="resp_unknown")


def test_tokens_are_counted_without_the_setting() -> None:
    with a_plane(False) as plane, client(plane) as ann:
        for model in ("native", "chatty"):
            assert ann.responses.input_tokens.count(model=model, input="four words are here").input_tokens > 0
            with pytest.raises(openai.APIStatusError, match=r"`store = true` under \[responses\]"):
                ann.responses.input_tokens.count(model=model, input="go on", previous_response_id="resp_1")


# -- /v1/responses/compact -------------------------------------------------------------------------------------------

HISTORY: Any = [
    {"type": "message", "role": "user", "content": "build a teapot"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "it is built"}]},
    {"type": "function_call", "call_id": "call_1", "name": "pour", "arguments": "{}"},
    {"type": "message", "role": "user", "content": "now fill it"},
]


def go_on(compacted: Any, question: str) -> Any:
    """The input of a request that continues a compacted conversation, as OpenAI documents it."""
    output = [
        item.to_dict(warnings=False) for item in compacted.output
    ]  # the SDK has no type for users' messages in outputs
    return [*output, {"type": "message", "role": "user", "content": question}]


@DIALECTS
@pytest.mark.parametrize("stores", [True, False], ids=["stored", "not stored"])
def test_a_compacted_conversation_goes_on_with_a_serve_of_any_dialect(model: str, stores: bool) -> None:
    with a_plane(stores) as plane, client(plane) as ann:
        compacted = ann.responses.compact(model=model, input=HISTORY, instructions="you make teapots")
        assert compacted.object == "response.compaction"
        assert compacted.usage.output_tokens > 0
        *users, summary = compacted.output
        assert [(item.type, item.role) for item in users] == [("message", "user")] * 2  # type: ignore[union-attr]
        assert summary.type == "compaction"
        asked = last_asked(plane, model)
        assert "Summarise this conversation" in asked
        assert "it is built" in asked
        assert "you make teapots" in asked
        assert "call_1" not in asked, "a call without an output is left out"
        ann.responses.create(model=model, input=go_on(compacted, "is it full"), store=False)
        asked = last_asked(plane, model)
        assert "Summary of the conversation so far" in asked
        assert "tok0 tok1" in asked, "the summary, which the scripted model wrote"
        assert "it is built" not in asked
        assert summary.encrypted_content not in asked
        again = ann.responses.compact(model=model, input=go_on(compacted, "is it hot"))
        assert [item.type for item in again.output] == ["message", "message", "message", "compaction"]
        assert "tok0 tok1" in last_asked(plane, model)


@DIALECTS
def test_a_stored_response_is_compacted_by_its_id(plane: Plane, model: str) -> None:
    with client(plane) as ann, client(plane, "bob") as bob:
        first = ann.responses.create(model=model, input="the first question")
        compacted = ann.responses.compact(model=model, previous_response_id=first.id)
        assert [item.type for item in compacted.output] == ["message", "compaction"]
        assert first.output_text in last_asked(plane, model)
        following = ann.responses.create(model=model, input=go_on(compacted, "the second question"))
        ann.responses.create(model=model, input="the third question", previous_response_id=following.id)
        assert "Summary of the conversation so far" in last_asked(plane, model)
        with pytest.raises(openai.BadRequestError, match="not found"):
            bob.responses.compact(model=model, previous_response_id=first.id)


def test_compacting_what_is_not_stored_names_the_setting() -> None:
    with a_plane(False) as plane, client(plane) as ann:
        for model in ("native", "chatty"):
            with pytest.raises(openai.BadRequestError, match=r"`store = true` under \[responses\]"):
                ann.responses.compact(model=model, previous_response_id="resp_1")
        with pytest.raises(openai.BadRequestError, match="nothing to compact"):
            ann.responses.compact(model="native")


@DIALECTS
def test_a_model_without_a_summary_is_an_error_of_the_serve(plane: Plane, model: str) -> None:
    with client(plane) as ann:
        ann.responses.create(model=model, input="load")
        plane.scripted(model, tokens=0)
        try:
            with pytest.raises(openai.InternalServerError, match="no complete summary") as caught:
                ann.responses.compact(model=model, input=HISTORY)
        finally:
            plane.scripted(model, tokens=20)
        assert caught.value.status_code == 502
        assert plane.decision(caught.value.request_id or "")["outcome"] == "upstream_failed"
