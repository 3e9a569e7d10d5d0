"""A request that refers to stored items, as a request that includes them; and its refusal where nothing is stored.

    1. `previous_response_id`: the input and the output of that response come before the request's own input
    2. `conversation`: the items of that conversation do
    3. compaction items of ours become the summary that they hold
    4. the serve gets `store: false` and none of these fields: the state is Stoker's

`instructions` of earlier requests are not repeated: the client sends those that hold now.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.tolerant_json import decode_fields
from stoker.request.stored_responses.compaction import COMPACTIONS, OpenSummary, expanded, since_compaction
from stoker.request.stored_responses.items import (
    CALLS,
    OUTPUTS,
    Raw,
    StoredItem,
    call_id,
    encode,
    head_of,
    is_id,
    read_conversation,
    read_items,
    read_response,
    to_store,
)

ENCRYPTED = "reasoning.encrypted_content"
"""Asked for in each stored response: without it, a vendor's reasoning could not be sent back."""
_PREVIOUS, _CONVERSATION = "previous_response_id", "conversation"
_texts = msgspec.json.Decoder(list[str]).decode
_ABSENT = (b"", b"null")


class StatefulRequest(NamedTuple):
    """One request, read. `is_stored`: its response is to be stored."""

    fields: dict[str, Raw]
    previous: str | None
    conversation: str | None
    is_stored: bool

    @property
    def refers(self) -> bool:
        """Whether it continues something stored."""
        return self.previous is not None or self.conversation is not None


class Replay(NamedTuple):
    """The body for the serve, and the whole input as it is stored; `own`: how many items at its end are new."""

    body: bytes
    items: list[StoredItem]
    own: int


def read_request(body: bytes) -> StatefulRequest:
    """Raises ClientError 400: a field has a wrong type, or two exclude each other. The body is a JSON object."""
    fields = decode_fields(body)
    if _value(fields, "background") is True:
        text = "'background' is not offered: leave it out, and keep the connection open"
        raise ClientError(text, code="stateful", param="background")
    store = _value(fields, "store")
    if store is not None and not isinstance(store, bool):
        raise ClientError("'store' must be true or false", code="bad_field", param="store")
    previous, conversation = _value(fields, _PREVIOUS), _value(fields, _CONVERSATION)
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    if previous is not None and conversation is not None:
        text = f"'{_PREVIOUS}' and '{_CONVERSATION}' cannot be used together: send one of them"
        raise ClientError(text, code="bad_field", param=_PREVIOUS)
    if previous is not None and not is_id(previous):
        raise unknown_response(previous)
    if conversation is not None and not is_id(conversation):
        raise unknown_conversation(conversation)
    return StatefulRequest(fields, previous, conversation, store is not False)


def history_of_response(record: bytes) -> list[StoredItem]:
    """What came before, for a request that continues this response."""
    stored = read_response(record)
    return since_compaction([*stored.items, *output_of(stored.response)])


def history_of_conversation(record: bytes) -> list[StoredItem]:
    return since_compaction(read_conversation(record).items)


def output_of(response: Raw | bytes) -> list[StoredItem]:
    """The items that a response gave."""
    return to_store(read_items(decode_fields(response).get("output"), "output"))


def replay(request: StatefulRequest, history: list[StoredItem], open_summary: OpenSummary) -> Replay:
    """Raises ClientError 400."""
    own = to_store(read_items(request.fields.get("input"), "input"))
    if request.previous is not None:
        _check_outputs(history, own)
    items = [*history, *own]
    upstream = [expanded(item.body, open_summary) for item in items]
    fields: dict[str, Raw] = {
        name: value for name, value in request.fields.items() if name not in (_PREVIOUS, _CONVERSATION, "generate")
    }
    is_same = not history and all(new is old.body for new, old in zip(upstream, items, strict=True))
    if not is_same or "input" not in fields:
        fields["input"] = Raw(encode(upstream))
    fields["store"] = Raw(b"false")
    fields["include"] = _include(fields.get("include"))
    return Replay(encode(fields), items, len(own))


def _check_outputs(history: list[StoredItem], own: list[StoredItem]) -> None:
    """Raises ClientError 400, as OpenAI, for the output of a call that neither the history nor the request has. A
    client that sends the whole history may have shortened it; here only a compaction has.
    """
    outputs = [call for item in own if (call := call_id(item.body, OUTPUTS))]
    if outputs and not any(head_of(item.body).type in COMPACTIONS for item in history):
        calls = {call_id(item.body, CALLS) for item in (*history, *own)}
        missing = next((call for call in outputs if call not in calls), None)
        if missing is not None:
            text = f"No tool call found for function call output with call_id {missing[:140]}."
            raise ClientError(text, code="bad_field", param="input")


def unknown_response(id: object) -> ClientError:
    shown = id[:140] if isinstance(id, str) else "?"
    text = f"Previous response with id '{shown}' not found."
    return ClientError(text, code="previous_response_not_found", param=_PREVIOUS)


def unknown_conversation(id: object, status: int = 404) -> ClientError:
    shown = id[:140] if isinstance(id, str) else "?"
    text = f"Conversation with id '{shown}' not found."
    return ClientError(text, code="conversation_not_found", param=_CONVERSATION, status=status)


def _include(given: Raw | None) -> Raw:
    try:
        names = [] if given is None or bytes(given) in _ABSENT else _texts(given)
    except msgspec.DecodeError:
        return given or Raw(b"null")
    return Raw(encode(names if ENCRYPTED in names else [*names, ENCRYPTED]))


def _value(fields: dict[str, Raw], name: str) -> object:
    given = fields.get(name)
    return None if given is None else msgspec.json.decode(given)


# -- where nothing is stored -----------------------------------------------------------------------------------------

SETTING = "`store = true` under [responses] in the configuration"


def not_stored(path: str) -> ClientError:
    """The error of a path that needs the store."""
    return ClientError(_text(path), code="responses_not_stored", status=404)


def not_stored_field(name: str) -> ClientError:
    """The error of a request whose field `name` needs the store."""
    return ClientError(_text(f"'{name}'"), code="stateful", param=name)


def _text(what: str) -> str:
    return f"{what} needs stored responses, and this Stoker stores none: whoever runs it can set {SETTING}"
