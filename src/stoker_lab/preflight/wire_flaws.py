"""What is wrong with the bytes of an answer of Chat Completions, judged before anything of ours reads and mends them.

Each function gives (word that `causes` knows, sentence), or ("", "") for nothing wrong. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker_lab.requests.client import ModelReply

Flaw = tuple[str, str]
NONE: Flaw = ("", "")
DONE = b"[DONE]"
REASONING = ("reasoning_content", "reasoning")
_KINDS: Mapping[type, str] = {dict: "an object", list: "an array", bool: "a boolean", int: "a number"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def bytes_flaw(reply: ModelReply) -> Flaw:
    """Each event of a stream has to be JSON of whole characters by itself, and so has a body."""
    for at, data in enumerate(reply.frames if reply.frames else [reply.raw]):
        if data in (DONE, b""):
            continue
        where = f"event {at + 1} of a stream" if reply.frames else "the body of an answer"
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return "cut", f"{where} is not UTF-8: {data[max(0, error.start - 12) : error.end + 6]!r}"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return "json", f"{where} is not JSON: {text[:60]!r}"
        if "\\u" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
            return "cut", f"{where} has half a character (a lone surrogate): {text[:60]!r}"
    return NONE


def documents(reply: ModelReply) -> list[Mapping[str, Any]]:
    """The JSON objects of the events, or the body; what cannot be read is left out (`bytes_flaw` finds it)."""
    if not reply.frames:
        return [reply.body] if isinstance(reply.body, dict) else []
    found: list[Mapping[str, Any]] = []
    for data in reply.frames:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def named_models(reply: ModelReply) -> list[str]:
    """What an answer says that its model is: each name once."""
    names = [one["model"] for one in documents(reply) if isinstance(one.get("model"), str) and one["model"]]
    return list(dict.fromkeys(names))


_COUNTS = ("total_tokens", "prompt_tokens", "completion_tokens")


def reasoning_tokens(reply: ModelReply) -> int:
    """Completion tokens that are said to be thoughts; 0 where nothing is said."""
    found = 0
    for document in documents(reply):
        usage = document.get("usage")
        details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
        count = details.get("reasoning_tokens") if isinstance(details, dict) else None
        found = max(found, count if type(count) is int else 0)
    return found


def tokens_apart(reply: ModelReply) -> int:
    """Tokens of thoughts that the completion tokens may leave out: those that are said to be thoughts, or what the
    total has beside prompt and completion."""
    found = reasoning_tokens(reply)
    for document in documents(reply):
        usage = document.get("usage")
        counts = [usage.get(name) for name in _COUNTS] if isinstance(usage, dict) else []
        total, *parts = [count for count in counts if type(count) is int] or [0]
        found = max(found, total - sum(parts)) if len(parts) == 2 else found
    return found


def order_flaw(reply: ModelReply) -> Flaw:
    """Of a stream without tools: thoughts come before the text, and nothing comes after the finish."""
    has_text, has_ended = False, False
    for choice, delta in _deltas(reply):
        if any(delta.get(name) for name in REASONING) and has_text:
            return "after", "thoughts come after the text of the answer"
        carries = any(delta.get(name) for name in ("content", "tool_calls", *REASONING))
        if has_ended and carries:
            return "late", "text or calls come after the finish reason"
        content = delta.get("content")
        has_text = has_text or (isinstance(content, str) and bool(content.strip()))
        has_ended = has_ended or bool(choice.get("finish_reason"))
    return NONE


def finish_reason(reply: ModelReply) -> str:
    """The last finish reason; empty: none came."""
    found = [choice["finish_reason"] for choice, _ in _deltas(reply) if choice.get("finish_reason")]
    return str(found[-1]) if found else ""


def call_flaw(reply: ModelReply) -> Flaw:
    """The calls of an answer, streamed or not."""
    return _streamed(reply) if reply.frames else _whole(reply)


def _whole(reply: ModelReply) -> Flaw:
    calls = [call for _, message in _deltas(reply) for call in _list(message.get("tool_calls"))]
    for call in calls:
        if fault := _shape(call) or _arguments(_function(call).get("arguments"), is_last=True):
            return fault
    return _ids([call.get("id") for call in calls])


def _streamed(reply: ModelReply) -> Flaw:
    """1. each piece has an index, and arguments as text  2. an index is one call  3. the indexes are 0, 1, 2..."""
    opened: dict[int, _Call] = {}
    for _, delta in _deltas(reply):
        for piece in _list(delta.get("tool_calls")):
            if fault := _shape(piece):
                return fault
            index = piece.get("index")
            if type(index) is not int:  # 1
                return "index", f"a piece of a call has {'no index' if index is None else f'the index {index!r}'}"
            function = _function(piece)
            if fault := _arguments(function.get("arguments"), is_last=False):
                return fault
            if fault := opened.setdefault(index, _Call(index)).add(piece.get("id"), function):  # 2
                return fault
    if sorted(opened) != list(range(len(opened))):  # 3
        return "index", f"the calls have the indexes {sorted(opened)}"
    for call in opened.values():
        if fault := call.end():
            return fault
    return _ids([call.id for call in opened.values()])


class _Call:
    def __init__(self, index: int) -> None:
        self.id = ""
        self._index = index
        self._name = ""
        self._text = ""

    def add(self, id: Any, function: Mapping[str, Any]) -> Flaw | None:
        """1. another name, or another id with a name: a second call  2. another id alone."""
        name = function.get("name") or ""
        is_other = bool(id and self.id and id != self.id)
        if self._name and name and (name != self._name or (is_other and _is_whole(self._text))):  # 1
            return "index", f"two calls share the index {self._index}: {self._name!r} and {name!r}"
        if is_other:  # 2
            return "ids", f"the pieces of one call have several ids: {self.id!r}, {id!r}"
        if isinstance(id, str):
            self.id = self.id or id
        self._name = self._name or str(name)
        self._text += function.get("arguments") or ""
        return None

    def end(self) -> Flaw | None:
        try:
            _, at = json.JSONDecoder().raw_decode(self._text.strip())
        except ValueError:
            return None
        if self._text.strip()[at:].lstrip().startswith("{"):
            return "index", f"two calls share the index {self._index}: their arguments run together"
        return None


def _shape(call: Any) -> Flaw | None:
    if not isinstance(call, Mapping) or not isinstance(call.get("function", {}), Mapping):
        return "broken", f"a call is not an object of the usual form: {str(call)[:60]}"
    return None


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    found = call.get("function")
    return found if isinstance(found, Mapping) else {}


def _arguments(given: Any, *, is_last: bool) -> Flaw | None:
    """Text, in every piece. Of a stream a piece may leave them out."""
    if isinstance(given, str) or (given is None and not is_last):
        return None
    if given is None:
        return "null", "the arguments of a call are null or left out, not text"
    kind = _KINDS.get(type(given), type(given).__name__)
    return "object", f"the arguments of a call are {kind}, not text: {json.dumps(given)[:60]}"


def _ids(ids: Sequence[Any]) -> Flaw:
    if all(isinstance(one, str) and one for one in ids) and len(set(ids)) == len(ids):
        return NONE
    return "id", f"{len(ids)} call(s) with the ids {list(ids)}"


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return not text.strip()
    return True


def _deltas(reply: ModelReply) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(choice, its delta or message), in order."""
    for document in documents(reply):
        for choice in _list(document.get("choices")):
            if isinstance(choice, dict):
                said = choice.get("delta") or choice.get("message") or {}
                yield choice, said if isinstance(said, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
