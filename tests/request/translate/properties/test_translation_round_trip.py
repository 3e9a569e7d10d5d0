"""To another dialect and back is the identity, on all that the SDKs' types can write less what has a named loss.

`lossless_tables` has a word for each field of the installed SDKs: a new field fails here until it has one.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import HealthCheck, Phase, given, seed, settings
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from tests.examples import examples
from tests.request.translate.capable import capabilities_of
from tests.request.translate.properties import lossless_requests as requests
from tests.request.translate.properties.going_through import SIGNER
from tests.request.translate.properties.lossless_tables import CHAT, MESSAGES, RESPONSES
from tests.request.translate.properties.sdk_fields import Field, Schema

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import LOSSY
from stoker.request.translate.translate import read_prompt, write_prompt

SOME = settings(
    max_examples=examples(200, 10), derandomize=True, deadline=None, database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
_TOOL = {"type": "function", "function": {"name": "x"}}
_ROOTS: dict[Field, Any] = {
    Field("MessageCreateParamsStreaming", ""): {"messages": [{"role": "user", "content": "u"}], "max_tokens": 4096},
    Field("CompletionCreateParamsStreaming", ""): {"messages": [{"role": "user", "content": "u"}], "tools": [_TOOL]},
    Field("ResponseCreateParamsStreaming", ""): {"input": "u", "model": "m"},
}
_IN = ("ThinkingBlockParam", "RedactedThinkingBlockParam", "ToolUseBlockParam", "ServerToolUseBlockParam")
_GIVEN: dict[Field, Any] = _ROOTS | {
    **{Field(owner, "in"): "AssistantMessageParam" for owner in _IN},
    Field("ToolReferenceBlockParam", "in"): "ToolResultBlockParam",
    Field("ChatCompletionContentPartTextParam", "in"): "ChatCompletionUserMessageParam",
    Field("ToolUseBlockParam", "caller"): {"type": "code_execution_20260120", "tool_id": "t"},
    Field("DocumentBlockParam", "citations"): {"enabled": True},
    Field("DocumentBlockParam", "source"): {"type": "text", "media_type": "text/plain", "data": "d"},
    Field("ImageBlockParam", "source"): {"type": "base64", "media_type": "image/png", "data": requests.PNG},
    Field("ThinkingConfigEnabledParam", "budget_tokens"): 2048,
    Field("ImageURL", "url"): f"data:image/png;base64,{requests.PNG}",
    Field("ImageURL", "detail"): "high",
    Field("File", "file"): {"file_data": requests.PDF},
    Field("ResponseInputFileParam", "detail"): "high",
    Field("CompletionCreateParamsStreaming", "modalities"): ["audio"],
    Field("CompletionCreateParamsStreaming", "n"): 2,
    Field("JSONSchema", ""): {"schema": {}},
    Field("JSONSchema", "strict"): False,
    Field("ChatCompletionAllowedToolChoiceParam", "allowed_tools"): {"mode": "auto", "tools": [_TOOL]},
    Field("ResponseInputImageParam", ""): {"image_url": f"data:image/png;base64,{requests.PNG}"},
    Field("ResponseInputImageContentParam", ""): {"image_url": f"data:image/png;base64,{requests.PNG}"},
    Field("ResponseInputFileParam", ""): {"file_data": requests.PDF},
    Field("ResponseInputFileContentParam", ""): {"file_data": requests.PDF},
    Field("ResponseOutputTextParam", "annotations"): [{"type": "file_path", "file_id": "f", "index": 0}],
}
"""Values that say something: a default is no loss."""


class Trip(NamedTuple):
    """A client's dialect, and the one that its requests are written in."""

    schema: Schema
    client: Dialect
    serve: Dialect
    requests: requests.Requests
    same: Any


TRIPS = {
    "messages": Trip(
        Schema(MessageCreateParamsStreaming, MESSAGES), Dialect.MESSAGES, Dialect.CHAT, requests.messages,
        requests.same_messages,
    ),
    "chat": Trip(
        Schema(CompletionCreateParamsStreaming, CHAT), Dialect.CHAT, Dialect.MESSAGES, requests.chat,
        requests.same_chat,
    ),
    "responses": Trip(
        Schema(ResponseCreateParamsStreaming, RESPONSES), Dialect.RESPONSES, Dialect.CHAT, requests.responses,
        requests.same_responses,
    ),
}  # fmt: skip
_NAMED = [
    pytest.param(name, field, word, id=f"{name}-{field.owner}-{field.name}")
    for name, trip in TRIPS.items()
    for field in trip.schema.fields()
    if (word := trip.schema.word(field)) is not None and word.startswith(("lost:", "refused:"))
]


def _kinds(dialect: Dialect) -> dict[bool, Capabilities]:
    """By whether the serve is one's own."""
    own = capabilities_of("openai", dialect, cloud=False, given={"tool_images": True})
    return {True: own, False: capabilities_of("openai", dialect, cloud=True)}


def _there(document: Any, client: Dialect, serve: Capabilities) -> tuple[bytes, set[str]]:
    prompt, losses = read_prompt(client, json.dumps(document).encode())
    written = write_prompt(prompt, losses, serve, SIGNER)
    return written.body, set(written.losses.codes)


@pytest.mark.parametrize("name", TRIPS)
def test_each_field_of_the_sdk_has_a_word(name: str) -> None:
    schema = TRIPS[name].schema
    fields = schema.fields()
    assert [field for field in fields if schema.word(field) is None] == []
    known = {
        Field(owner, field)
        for owner, words in schema.table.items()
        for field in ([""] if isinstance(words, str) else words)
    }
    assert known - set(fields) == set(), "the table names what the SDK does not have"
    words = {schema.word(field) or "" for field in fields}
    assert {word.partition(":")[0] for word in words} <= {"same", "lost", "refused", "aside"}
    assert {word[5:] for word in words if word.startswith("lost:")} <= set(LOSSY)


@pytest.mark.parametrize(("name", "field", "word"), _NAMED)
def test_a_named_loss_is_told(name: str, field: Field, word: str) -> None:
    trip = TRIPS[name]
    alone = field.name in ("file_id", "file_url")  # in the place of what is sent
    given_ = {at: value for at, value in _GIVEN.items() if not (alone and at == Field(field.owner, ""))}
    document = _called(trip.schema.sample(field, given_))
    assert field in trip.schema.used(document) or not field.name
    told: set[str] = set()
    for serve in _kinds(trip.serve).values():
        try:
            told |= {f"lost:{code}" for code in _there(document, trip.client, serve)[1]}
        except ClientError as error:
            told.add(f"refused:{error.code}")
    assert word in told


def _called(document: Any) -> Any:
    """A result has its call before it."""
    items = document.get("input")
    if isinstance(items, list) and items[0].get("type") == "function_call_output":
        items[0]["call_id"] = "x"
        items.insert(0, {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"})
    turns = document.get("messages", [{}])
    if isinstance(turns[0].get("content"), list) and "tool_use_id" in turns[0]["content"][0]:
        call = {"type": "tool_use", "id": turns[0]["content"][0]["tool_use_id"], "name": "f", "input": {}}
        turns.insert(0, {"role": "assistant", "content": [call]})
    return document


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TRIPS)
def test_there_and_back_is_the_identity(name: str, record_property: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """And the requests use every field that the table calls the same; the share of them is reported."""
    trip = TRIPS[name]
    fields = trip.schema.fields()
    same = {field for field in fields if trip.schema.word(field) == "same"}
    used: set[Field] = set()
    for number in range(9):  # some fields are rare; which examples a seed gives changes with the code
        for local in (True, False):
            _round(trip, local, used, number)
        if same <= used:
            break
    assert same - used == set(), "each is in some request"
    words = Counter((trip.schema.word(field) or "").partition(":")[0] for field in fields)
    left = len(fields) - words["lost"] - words["refused"]
    share = f"{name}: {len(same & used)} of {left} fields without a named loss, of {len(fields)} in all: {dict(words)}"
    record_property("share", share)
    with capsys.disabled():
        print(f"\n{share}")
    assert len(same & used) + words["aside"] == left


def _round(trip: Trip, local: bool, used: set[Field], number: int) -> None:
    @seed(number)
    @SOME
    @given(document=trip.requests(local))
    def holds(document: Any) -> None:
        body, lost = _there(document, trip.client, _kinds(trip.serve)[local])
        assert lost == set()
        back, lost = _there(json.loads(body), trip.serve, _kinds(trip.client)[local])
        assert lost == set()
        assert trip.same(_without(json.loads(back))) == trip.same(_without(document))
        used.update(trip.schema.used(document))

    holds()


def _without(document: Any) -> Any:
    """Empty lists of tools are none."""
    return {key: value for key, value in document.items() if key != "tools" or value}
