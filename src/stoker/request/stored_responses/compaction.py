"""A conversation summarised by its model: `/v1/responses/compact`, and compaction items in later requests.

The answer is a list of the user's messages as they were, and one compaction item, as OpenAI documents it. The item
holds the model's summary, sealed: Stoker knows its own again, and puts the summary in the item's place. It is signed,
not encrypted: whoever has the item can read the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stoker.request.stored_responses.items import fields_of, head_of, listed, new_id, read_items
from stoker.request.stored_responses.records import Raw, StoredItem, encode

PROMPT = (
    "Summarise this conversation so that the work can continue from your summary alone. State what the user wants, "
    "what was done and found, which decisions, file names, commands and values matter, and what remains to be done. "
    "Write the summary only."
)
_OPENING = "Summary of the conversation so far:\n\n"
_KEPT = ("model", "instructions", "prompt_cache_key", "service_tier", "reasoning", "user", "safety_identifier")
_parts = msgspec.json.Decoder(list[dict[str, Any]]).decode


def summary_request(fields: dict[str, Raw], items: Sequence[Raw]) -> bytes:
    """The request whose answer is the summary."""
    asked: dict[str, Any] = {name: fields[name] for name in _KEPT if name in fields}
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    return encode({**asked, "input": [*items, prompt], "store": False})


def summary_of(response: dict[str, Raw]) -> str:
    """The text of the answer; empty: it has none, or was cut off."""
    if bytes(response.get("status", b"")) != b'"completed"':
        return ""
    texts: list[str] = []
    for item in read_items(response.get("output"), "output"):
        if head_of(item).type == "message":
            try:
                parts = _parts(fields_of(item).get("content", b"[]"))
            except msgspec.DecodeError:
                continue
            texts += [str(part.get("text", "")) for part in parts if part.get("type") == "output_text"]
    return "\n\n".join(text for text in texts if text)


def compacted(items: Sequence[StoredItem], sealed: str, created: int, usage: Raw | None) -> bytes:
    """The answer of `/v1/responses/compact`. `sealed`: the summary, sealed."""
    users = [listed(item) for item in items if head_of(item.body).role == "user"]
    summary = {"id": new_id("cmp_"), "type": "compaction", "encrypted_content": sealed}
    return encode(
        {
            "id": new_id("resp_"),
            "object": "response.compaction",
            "created_at": created,
            "output": [*users, summary],
            "usage": usage,
        }
    )


def expanded(item: Raw, open_summary: Callable[[str], str | None]) -> Raw:
    """The item as serves understand it: a compaction item of ours becomes the summary, as a message of the user."""
    head = head_of(item)
    if head.type != "compaction" or not isinstance(head.encrypted_content, str):
        return item
    summary = open_summary(head.encrypted_content)
    if summary is None:
        return item
    content = [{"type": "input_text", "text": _OPENING + summary}]
    return Raw(encode({"type": "message", "role": "user", "content": content}))
