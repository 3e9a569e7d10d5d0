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
    return running(*SERVES, KEYS, "[responses]\nstore = true" if stores else "", slots=SLOTS, environment=ENVIRONMENT)


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
