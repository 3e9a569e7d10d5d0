"""A conversation summarised by its model, and compaction items in later requests. A client asks for it at
`/v1/responses/compact`, or by a `compaction_trigger` as the last item of a request for a response.

1. a serve knows neither: the model is asked for a summary, in whatever dialect the serve speaks
2. the path answers with a list of the user's messages as they were, and one compaction item; a trigger with a response
   whose output is that item
3. the item holds the summary, sealed: Stoker recognises its own items, and puts the summary in the item's place
4. OpenAI knows both: it gets the request, with what it refers to

A sealed summary is signed, not encrypted: whoever has the item can read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.tolerant_json import NOT_JSON, decode_fields
from stoker.request.stored_responses.items import (
    CALLS,
    OUTPUTS,
    Raw,
    StoredItem,
    call_id,
    encode,
    head_of,
    listed,
    new_id,
    read_items,
)

PROMPT = (
    "Summarise this conversation so that the work can continue from your summary alone. State what the user wants, "
    "what was done and found, which decisions, file names, commands and values matter, and what remains to be done. "
    "Write the summary only."
)
_OPENING = "Summary of the conversation so far:\n\n"
_KEPT = (
    "model", "instructions", "prompt_cache_key", "service_tier", "reasoning", "user", "safety_identifier", "tools",
    "max_output_tokens", "temperature", "top_p", "client_metadata",
)  # fmt: skip
"""Fields of the client's request that the request for a summary has, too. With the tools, an engine finds the prompt of
the conversation in its cache."""
_FOREIGN = (
    "previous_response_id", "conversation", "store", "include", "max_output_tokens", "temperature", "top_p",
)  # fmt: skip
"""Fields that OpenAI's path does not have, or that mean nothing there. The settings of a key may have added some."""
TRIGGER = "compaction_trigger"
_CLIENTS_ROLES = ("user", "developer", "system")
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
"""A compaction item, as OpenAI and the versions of Codex call it."""
_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
"""What clients read if the serve reports no usage: the field is required."""
_parts = msgspec.json.Decoder(list[dict[str, Any]]).decode

OpenSummary = Callable[[str], str | None]
"""Returns the text that a compaction item of ours holds; None: it is not ours."""


def summary_request(
    fields: dict[str, Raw], items: Sequence[StoredItem], open_summary: OpenSummary, keep: Sequence[str] = ()
) -> bytes:
    """The request whose answer is the summary. Calls without an output are left out: some APIs refuse them. `keep`:
    more fields of the client's request that it has. Raises ClientError 400: there is nothing to summarise.
    """
    items = [item for item in items if head_of(item.body).type != TRIGGER]
    if not items:
        text = "there is nothing to compact: send 'input' or 'previous_response_id'"
        raise ClientError(text, code="bad_field", param="input")
    answered = {call for item in items if (call := call_id(item.body, OUTPUTS))}
    asked = [item.body for item in items if call_id(item.body, CALLS) in (None, *answered)]
    given: dict[str, Any] = {name: fields[name] for name in (*_KEPT, *keep) if name in fields}
    if "tools" in given:
        given["tool_choice"] = "none"
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    upstream = [*(expanded(item, open_summary) for item in asked), prompt]
    return encode({**given, "input": upstream, "store": False})


def relayed_request(
    body: bytes, fields: dict[str, Raw], items: Sequence[StoredItem], open_summary: OpenSummary
) -> bytes:
    """The request for OpenAI's own path. `body` itself, if nothing has to change."""
    upstream = [expanded(item.body, open_summary) for item in items]
    is_same = all(new is old.body for new, old in zip(upstream, items, strict=True))
    if is_same and not any(name in fields for name in _FOREIGN):
        return body
    kept: dict[str, Any] = {name: value for name, value in fields.items() if name not in _FOREIGN}
    return encode({**kept, "input": upstream})


def summary_of(response: dict[str, Raw]) -> tuple[str, Raw | None]:
    """The text of the response, and the usage. The text is empty if there is none, or if it was cut off."""
    if bytes(response.get("status", b"")) != b'"completed"':
        return "", None
    texts: list[str] = []
    for item in read_items(response.get("output"), "output"):
        if head_of(item).type == "message":
            try:
                parts = _parts(decode_fields(item).get("content", b"[]"))
            except NOT_JSON:
                continue
            texts += [str(part.get("text", "")) for part in parts if part.get("type") == "output_text"]
    return "\n\n".join(text for text in texts if text.strip()), response.get("usage")


def compacted(items: Sequence[StoredItem], sealed: str, created: int, usage: Raw | None) -> bytes:
    """The answer of `/v1/responses/compact`. `sealed`: the summary, sealed."""
    users = [listed(item) for item in items if head_of(item.body).role == "user"]
    is_counted = usage is not None and bytes(usage) != b"null"
    return encode(
        {
            "id": new_id("resp_"),
            "object": "response.compaction",
            "created_at": created,
            "output": [*users, compaction_item(sealed)],
            "usage": usage if is_counted else _NO_USAGE,
        }
    )


def compaction_item(sealed: str) -> dict[str, object]:
    return {"id": new_id("cmp_"), "type": "compaction", "encrypted_content": sealed}


def asks_for_compaction(body: bytes) -> bool:
    """Whether the request ends with a `compaction_trigger`. Raises ClientError 400 for one in another place."""
    if TRIGGER.encode() not in body:
        return False
    items = read_items(decode_fields(body).get("input"), "input")
    at = next((at for at, item in enumerate(items) if head_of(item).type == TRIGGER), None)
    if at is not None and at < len(items) - 1:
        text = f"'input[{at}]' is a {TRIGGER}, which must be the last item of 'input'"
        raise ClientError(text, code="bad_field", param=f"input[{at}]")
    return at is not None


def since_compaction(items: list[StoredItem]) -> list[StoredItem]:
    """The history that a request continues: before the last compaction item, only what the client itself said."""
    kinds = [head_of(item.body).type for item in items]
    last = next((at for at in reversed(range(len(items))) if kinds[at] in COMPACTIONS), 0)
    kept = [*(item for item in items[:last] if head_of(item.body).role in _CLIENTS_ROLES), *items[last:]]
    return [item for item in kept if head_of(item.body).type != TRIGGER]


def expanded(item: Raw, open_summary: OpenSummary) -> Raw:
    """The item as serves understand it: a compaction item of ours becomes the summary, as a message of the user."""
    head = head_of(item)
    if head.type not in COMPACTIONS or not isinstance(head.encrypted_content, str):
        return item
    summary = open_summary(head.encrypted_content)
    if summary is None:
        return item
    content = [{"type": "input_text", "text": _OPENING + summary}]
    return Raw(encode({"type": "message", "role": "user", "content": content}))


def may_hold_compaction(body: bytes) -> bool:
    """Whether there may be a compaction item in a request. Quick: it looks for the word."""
    return b"compaction" in body


def expand_compactions(body: bytes, open_summary: OpenSummary) -> bytes | None:
    """The request with summaries in the place of our compaction items; None: it has none. Raises ClientError 400."""
    fields = decode_fields(body)
    items = read_items(fields.get("input"), "input")
    upstream = [expanded(item, open_summary) for item in items]
    if all(new is old for new, old in zip(upstream, items, strict=True)):
        return None
    fields["input"] = Raw(encode(upstream))
    return encode(fields)
