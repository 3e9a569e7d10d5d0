"""The few changes to a request that otherwise passes through byte for byte. Each change has a word.

dropped:billing_header    Messages to a local model: the system block that differs with each request
dropped:thinking          to Anthropic: thinking that it did not sign; to OpenAI: reasoning that it did not encrypt
lossy:server_tools        to a serve that cannot run them: tools of a vendor, such as web search, and a choice of one
lossy:foreign_block       to the same: what such tools left in the history
repaired:tools            to the same: tools that came as an item of Responses join the others
repaired:blank_text       to Anthropic: text without a letter, which it refuses; blanks at the end of a begun answer
repaired:call_ids         to a vendor: ids of calls that are longer than it takes, or of other letters
repaired:arguments        arguments of a call that are no JSON object: an engine would refuse them at every later turn

Each change is a row of `_adaptations`: a search of the bytes that finds out whether the body may need it, and the
change itself. A body is parsed only if a search says so; all other fields keep their bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from stoker.domain.dialect import Dialect
from stoker.request.codec.server_tools import SERVER_TOOL_FIELDS, is_clients
from stoker.request.codec.tolerant_json import decode_fields
from stoker.request.translate.neutral.calls import fitted_id, is_object, repaired
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, encode, is_there, loose
from stoker.request.translate.neutral.model_families import SAMPLING
from stoker.request.translate.neutral.thinking import ANTHROPIC, OPENAI, OURS, maker_of
from stoker.request.translate.prepare import BILLING, refused_url, unbilled
from stoker.request.translate.remote_images import files_elsewhere, image_parts, may_hold, remote_in
from stoker.request.translate.vendor_rules import (
    apply_claude_rules,
    apply_gpt_rules,
    ends_in_blanks,
    without_last_blanks,
)

_BILLING = BILLING.encode()
_OURS = OURS.encode()
_list = msgspec.json.Decoder(list[Raw])
_ARGUMENTS = b'"arguments"'
_CALL = b"_call"
"""In `tool_calls`, `function_call`, `custom_tool_call`, and the outputs of calls."""
_argument_value = re.compile(r'"arguments"\s*:\s*(?=[^\s{])')
"""Before the value of such a key, unless it is an object, as in a schema."""
_NAME_ALONE = re.compile(rb'"function"\s*:\s*\{\s*"name"\s*:\s*"[^"]*"\s*\}')
"""A function without anything but its name: a call that lacks its arguments, or a tool."""
_value_at = json.JSONDecoder().raw_decode
_INPUT = re.compile(rb'"input"\s*:\s*[^\s{]')
_NULL = Raw(b"null")
_NO_CONTENT = Raw(b'"(no content)"')
Fields = dict[str, Raw]


class Changes:
    """What was changed, in words."""

    __slots__ = ("_words", "losses")

    def __init__(self) -> None:
        self._words: dict[str, None] = {}
        self.losses = Losses()

    def add(self, word: str) -> None:
        self._words[word] = None

    def words(self) -> tuple[str, ...]:
        return (*self._words, *self.losses.words())


class Adaptation(NamedTuple):
    """`may_apply`: False only for bodies that certainly need no change. `apply` changes the fields in place."""

    may_apply: Callable[[bytes], bool]
    apply: Callable[[Fields, Changes], None]


def adapt_body(
    body: bytes, traits: Capabilities, may_name_images: bool = True, may_have_server_tools: bool = True
) -> tuple[bytes, tuple[str, ...]]:
    """The body to send, and what was changed. `body` is valid JSON; the two flags are from its `BodyFields`.

    Raises ClientError 400 `image_url_refused`.
    """
    if traits.local and may_name_images and not traits.takes_image_urls and may_hold(body):
        refuse_remote(loose(body))
    needed = [one for one in _adaptations(traits) if one.may_apply(body)]
    if may_have_server_tools and not traits.server_tools:
        needed.append(_CHANGES[traits.dialect].without_server_tools)
    if not needed:
        return body, ()
    fields, changes = decode_fields(body), Changes()
    for one in needed:
        one.apply(fields, changes)
    words = changes.words()
    return (encode(fields), words) if words else (body, ())


def is_plain(traits: Capabilities) -> bool:
    """Whether a body without calls of tools is never changed for this serve. It may still be refused for the URLs of
    images.
    """
    return traits.dialect is Dialect.CHAT and traits.local


# -- the billing line ---------------------------------------------------------------------------------------------


def _drop_billing(fields: Fields, changes: Changes) -> None:
    try:
        blocks = _list.decode(fields.get("system", _NULL))
    except msgspec.DecodeError:
        return
    kept: list[Any] = []
    has_changed = False
    for raw in blocks:
        block = loose(raw)
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str) or not text.startswith(BILLING):
            kept.append(raw)
            continue
        has_changed = True
        if rest := unbilled(text):
            kept.append({**block, "text": rest})
    if not has_changed:
        return
    changes.add("dropped:billing_header")
    if kept:
        fields["system"] = Raw(encode(kept))
    else:
        del fields["system"]


# -- thinking -----------------------------------------------------------------------------------------------------

_THINKING_BLOCK = re.compile(rb'"type"\s*:\s*"thinking"')
_SIGNED_BLOCK = re.compile(rb'"signature"\s*:\s*"[A-Za-z0-9+/]')
_NOT_ANTHROPICS = re.compile(rb'"signature"\s*:\s*"(?:stoker1\.|gAAAA|[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-)')


def _may_hold_foreign_thinking(body: bytes) -> bool:
    """Whether a block of thinking may lack a signature, or have one by its form of another maker."""
    thoughts = len(_THINKING_BLOCK.findall(body))
    return bool(thoughts) and (
        len(_SIGNED_BLOCK.findall(body)) < thoughts or _OURS in body or _NOT_ANTHROPICS.search(body) is not None
    )


def _drop_foreign_blocks_of_thinking(fields: Fields, changes: Changes) -> None:
    """Messages: thinking that Anthropic did not sign."""

    def block(raw: Raw) -> Any:
        given = loose(raw)
        if not isinstance(given, dict) or given.get("type") != "thinking":
            return raw
        signature = given.get("signature")
        if isinstance(signature, str) and maker_of(signature, Dialect.MESSAGES) == ANTHROPIC:
            return raw
        changes.add("dropped:thinking")
        return None

    _drop_blocks(fields, _THINKING_BLOCK, block)


def _drop_foreign_reasoning(fields: Fields, changes: Changes) -> None:
    """Responses: reasoning that OpenAI did not encrypt. What it stores itself has neither text nor signature here."""

    def item(raw: Raw) -> Any:
        given = loose(raw)
        if not isinstance(given, dict) or given.get("type") != "reasoning":
            return raw
        sealed = given.get("encrypted_content")
        if maker_of(sealed, Dialect.RESPONSES) == OPENAI if isinstance(sealed, str) else not given.get("content"):
            return raw
        changes.add("dropped:thinking")
        return None

    _map(fields, "input", item)


def drop_thinking(body: bytes, traits: Capabilities) -> bytes:
    """The body without thinking of the past, for a vendor that refuses a signature. The same body if it has none."""
    fields, changes = decode_fields(body), Changes()
    is_messages = traits.dialect is Dialect.MESSAGES

    def message(raw: Raw) -> Any:
        given = _object(raw)
        if given is None or not _map(given, "content", block):
            return raw
        if bytes(given["content"]) == b"[]":
            given["content"] = _NO_CONTENT
        return given

    def block(raw: Raw) -> Any:
        given = loose(raw)
        return None if isinstance(given, dict) and given.get("type") in ("thinking", "redacted_thinking") else raw

    def item(raw: Raw) -> Any:
        given = loose(raw)
        return None if isinstance(given, dict) and given.get("type") == "reasoning" else raw

    if not (_map(fields, "messages", message) if is_messages else _map(fields, "input", item)):
        return body
    if is_messages:
        apply_claude_rules(fields, traits, changes.losses)
    return encode(fields)


# -- arguments of calls -------------------------------------------------------------------------------------------


def _may_hold_broken_arguments(body: bytes) -> bool:
    """Looks at the arguments alone: the rest of the body is only searched for them."""
    if _ARGUMENTS not in body:
        return b'"tool_calls"' in body and _NAME_ALONE.search(body) is not None
    text, at = body.decode(), 0
    while (at := text.find('"arguments"', at)) >= 0:
        found = _argument_value.match(text, at)
        if found is None:
            at += 1
            continue
        try:
            value, at = _value_at(text, found.end())
        except (ValueError, RecursionError):
            return True
        if not isinstance(value, str) or not is_object(value):
            return True
    return False


def _repair_calls(fields: Fields, changes: Changes) -> None:
    """Chat: the calls of each message; `function_call` is the old form of one."""

    def message(raw: Raw) -> Any:
        given = _object(raw) if _CALL in bytes(raw) else None
        if given is None:
            return raw
        is_changed = _map(given, "tool_calls", call)
        if "function_call" in given and (one := function(given["function_call"])) is not given["function_call"]:
            given["function_call"] = one
            is_changed = True
        return given if is_changed else raw

    def call(raw: Raw) -> Any:
        given = _object(raw)
        inner = given.get("function") if given is not None else None
        if given is None or inner is None or (changed := function(inner)) is inner:
            return raw
        return {**given, "function": changed}

    def function(raw: Raw) -> Raw:
        given = _object(raw)
        return raw if given is None or not _repair(given, "arguments", changes) else Raw(encode(given))

    _map(fields, "messages", message)


def _repair_items(fields: Fields, changes: Changes) -> None:
    """Responses: each `function_call` of the input."""

    def item(raw: Raw) -> Any:
        given = _object(raw) if _ARGUMENTS in bytes(raw) else None
        if given is None or loose(given.get("type", _NULL)) != "function_call":
            return raw
        return given if _repair(given, "arguments", changes) else raw

    _map(fields, "input", item)


def _repair_uses(fields: Fields, changes: Changes) -> None:
    """Messages: the `input` of each `tool_use`."""

    def message(raw: Raw) -> Any:
        given = _object(raw) if _INPUT.search(bytes(raw)) is not None else None
        return given if given is not None and _map(given, "content", block) else raw

    def block(raw: Raw) -> Any:
        given = _object(raw)
        if (
            given is None
            or loose(given.get("type", _NULL)) != "tool_use"
            or bytes(given.get("input", _NULL))[:1] == b"{"
        ):
            return raw
        text = _text_of(given.get("input", _NULL))
        changes.losses.repair("arguments")
        given["input"] = Raw(repaired(text, changes.losses).encode())
        return given

    _map(fields, "messages", message)


def _repair(given: Fields, name: str, changes: Changes) -> bool:
    """Whether the arguments had to be repaired, in place. An object instead of its text is left to the engine."""
    text = _text_of(given.get(name, _NULL))
    if is_object(text):
        return False
    given[name] = Raw(encode(repaired(text, changes.losses)))
    return True


def _text_of(arguments: Raw) -> str:
    """The text in a string, or the text of any other value."""
    value = loose(arguments)
    return value if isinstance(value, str) else bytes(arguments).decode()


# -- blank text ---------------------------------------------------------------------------------------------------

_BLANK = re.compile(rb'"(?:text|content)"\s*:\s*"(?:\s|\\[nrt])*"')


def _may_hold_blanks(body: bytes) -> bool:
    """Whether Anthropic may find a text without a letter, or a begun answer that ends in blanks."""
    return _BLANK.search(body) is not None or body.rfind(b'"assistant"') > body.rfind(b'"user"')


def _drop_blanks(fields: Fields, changes: Changes) -> None:
    """Messages: blank texts of turns, of results and of the system prompt."""

    def message(raw: Raw) -> Any:
        given = _object(raw) if _BLANK.search(bytes(raw)) is not None else None
        if given is None:
            return raw
        content = loose(given.get("content", _NULL))
        if isinstance(content, str) and not content.strip():
            changes.losses.repair("blank_text")
            return {**given, "content": _NO_CONTENT}
        if not _map(given, "content", block):
            return raw
        if bytes(given["content"]) == b"[]":
            given["content"] = _NO_CONTENT
        return given

    def block(raw: Raw) -> Any:
        given = _object(raw)
        kind = loose(given.get("type", _NULL)) if given is not None else None
        if given is None or kind not in ("text", "tool_result"):
            return raw
        if kind == "tool_result":
            return given if _map(given, "content", block) else raw
        text = loose(given.get("text", _NULL))
        if not isinstance(text, str) or text.strip():
            return raw
        changes.losses.repair("blank_text")
        return None

    _map(fields, "messages", message)
    if _map(fields, "system", block) and bytes(fields["system"]) == b"[]":
        del fields["system"]
    turns = _list_at(fields, "messages")
    last = [loose(turns[-1])] if turns else []
    if ends_in_blanks(last):
        changes.losses.repair("blank_text")
        without_last_blanks(last)
        fields["messages"] = Raw(encode([*turns[:-1], last[0]]))


# -- ids of calls -------------------------------------------------------------------------------------------------


def _fit_ids(traits: Capabilities) -> Adaptation:
    """The ids of calls as the vendor takes them: the same for a call and its result, at every turn."""
    is_plain = traits.dialect is Dialect.MESSAGES
    odd = rb"|[^\"]*[^A-Za-z0-9_\-\"][^\"]*" if is_plain else b""
    pattern = re.compile(
        rb'"(?:id|call_id|tool_call_id|tool_use_id)"\s*:\s*"(?:[^"]{%d,}%b)"' % (traits.id_length + 1, odd)
    )
    turns, (of_turn, inner, of_inner) = traits.dialect.spec.turns, _CHANGES[traits.dialect].ids

    def apply(fields: Fields, changes: Changes) -> None:
        def fit(given: Fields, names: tuple[str, ...]) -> bool:
            has_changed = False
            for name in names:
                id = loose(given.get(name, _NULL))
                if isinstance(id, str) and (fitted := fitted_id(id, traits.id_length, is_plain)) != id:
                    given[name] = Raw(encode(fitted))
                    has_changed = True
            return has_changed

        def part(raw: Raw) -> Any:
            given = _object(raw)
            return given if given is not None and fit(given, of_inner) else raw

        def turn(raw: Raw) -> Any:
            given = _object(raw) if pattern.search(bytes(raw)) is not None else None
            if given is None:
                return raw
            has_changed = fit(given, of_turn)
            return given if (_map(given, inner, part) if inner else False) or has_changed else raw

        if _map(fields, turns, turn):
            changes.losses.repair("call_ids")

    return Adaptation(lambda body: pattern.search(body) is not None, apply)


# -- tools of a vendor ----------------------------------------------------------------------------------------------


_FOREIGN_BLOCK = re.compile(rb'"(?:server_tool_use|mcp_tool_use|[a-z_]+_tool_result|container_upload)"')
_FOREIGN_ITEM = re.compile(
    rb'"(?:mcp_|(?!function_call|custom_tool_call)[a-z_]+_call(?:_output)?"|tool_search_output"|additional_tools")'
)
_ITEMS = frozenset(
    ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
     "item_reference", "compaction")
)  # fmt: skip
"""Items of the input that are no vendor's tool."""
_TOOL_ITEMS = ("tool_search_output", "additional_tools")


def _drop_server_tools(fields: Fields, changes: Changes, choose: Callable[[Any, set[str]], Any]) -> None:
    """`choose(tool_choice, names)`: the choice without the tools of these names."""
    dropped: set[str] = set()

    def tool(raw: Raw) -> Any:
        given = loose(raw)
        if not isinstance(given, dict) or given.get("type") is None or is_clients(given["type"]):
            return raw
        dropped.add(str(given.get("name", given["type"])))
        return None

    has_changed = _map(fields, "tools", tool)
    for name in SERVER_TOOL_FIELDS:
        has_changed |= is_there(fields.get(name, _NULL))
        fields.pop(name, None)
    if not has_changed:
        return
    changes.losses.add("server_tools")
    if bytes(fields.get("tools", b"")) == b"[]":
        for name in ("tools", "tool_choice", "parallel_tool_calls"):
            fields.pop(name, None)
    elif "tool_choice" in fields:
        given = loose(fields["tool_choice"])
        if (chosen := choose(given, dropped)) is not given:
            fields["tool_choice"] = Raw(encode(chosen))


def _messages_choice(given: Any, dropped: set[str]) -> Any:
    if not isinstance(given, dict) or given.get("type") != "tool" or given.get("name") not in dropped:
        return given
    return {**{name: value for name, value in given.items() if name != "name"}, "type": "auto"}


def _openai_choice(given: Any, dropped: set[str]) -> Any:
    """A choice names a vendor's tool by its type."""
    if not isinstance(given, dict) or is_clients(given.get("type")):
        return given
    if given.get("type") != "allowed_tools":
        return "auto"
    inner = given.get("allowed_tools", given)
    tools = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(tools, list):
        return given
    kept = [tool for tool in tools if not isinstance(tool, dict) or is_clients(tool.get("type"))]
    if len(kept) == len(tools):
        return given
    changed = {**inner, "tools": kept}
    return "none" if not kept else changed if inner is given else {**given, "allowed_tools": changed}


def _drop_foreign_blocks(fields: Fields, changes: Changes) -> None:
    def block(raw: Raw) -> Any:
        given = loose(raw)
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(kind, str) or _FOREIGN_BLOCK.fullmatch(encode(kind)) is None:
            return raw
        changes.losses.add("foreign_block")
        return None

    _drop_blocks(fields, _FOREIGN_BLOCK, block)


def _drop_foreign_items(fields: Fields, changes: Changes) -> None:
    """Tools that come as an item, or that a search for tools found, join the others: an engine knows no such items."""
    found: list[Raw] = []

    def item(raw: Raw) -> Any:
        given = loose(raw)
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(kind, str) or kind in _ITEMS:
            return raw
        if kind in _TOOL_ITEMS:
            found.extend(_list_at(decode_fields(raw), "tools"))
            changes.losses.repair("tools")
        else:
            changes.losses.add("foreign_block")
        return None

    if not _map(fields, "input", item) or not found:
        return
    tools = _list_at(fields, "tools")
    names = {_name_of(tool) for tool in tools}
    for tool in found:
        if (name := _name_of(tool)) not in names:
            names.add(name)
            tools.append(tool)
    fields["tools"] = Raw(encode(tools))


def _name_of(tool: Raw) -> str:
    given = loose(tool)
    return str(given.get("name")) if isinstance(given, dict) else ""


def _without_server_tools(choose: Callable[[Any, set[str]], Any]) -> Adaptation:
    return Adaptation(lambda body: True, lambda fields, changes: _drop_server_tools(fields, changes, choose))


# -- places -------------------------------------------------------------------------------------------------------


def _object(raw: Raw) -> Fields | None:
    try:
        return decode_fields(raw)
    except msgspec.DecodeError:
        return None


def _list_at(fields: Fields, name: str) -> list[Raw]:
    try:
        return _list.decode(fields.get(name, _NULL))
    except msgspec.DecodeError:
        return []


def _map(fields: Fields, name: str, change: Callable[[Raw], Any]) -> bool:
    """Puts `change(entry)` in place of each entry of a list; None removes it. Whether any entry was changed."""
    try:
        entries = _list.decode(fields.get(name, _NULL))
    except msgspec.DecodeError:
        return False
    changed = [change(entry) for entry in entries]
    if all(new is old for new, old in zip(changed, entries, strict=True)):
        return False
    fields[name] = Raw(encode([entry for entry in changed if entry is not None]))
    return True


def _drop_blocks(fields: Fields, sign: re.Pattern[bytes], keep: Callable[[Raw], Any]) -> None:
    """Messages: `keep` of each block of the turns in which `sign` is found; None drops it. A turn keeps its place."""

    def message(raw: Raw) -> Any:
        given = _object(raw) if sign.search(bytes(raw)) is not None else None
        if given is None or not _map(given, "content", keep):
            return raw
        if bytes(given["content"]) == b"[]":
            given["content"] = _NO_CONTENT
        return given

    _map(fields, "messages", message)


def _holds(*words: bytes) -> Callable[[bytes], bool]:
    return lambda body: any(word in body for word in words)


@cache
def _adaptations(traits: Capabilities) -> tuple[Adaptation, ...]:
    """What a serve of this kind needs, in the order in which it is done."""
    return tuple(_CHANGES[traits.dialect].adaptations(traits))


def _for_chat(traits: Capabilities) -> Iterable[Adaptation]:
    yield Adaptation(_may_hold_broken_arguments, _repair_calls)
    if traits.id_length:
        yield _fit_ids(traits)
    if has_gpt_rules(traits):
        yield _gpt_rules(traits, b'"max_tokens"', b'"reasoning_effort"')


def _for_responses(traits: Capabilities) -> Iterable[Adaptation]:
    yield Adaptation(_may_hold_broken_arguments, _repair_items)
    if not traits.server_tools:
        yield Adaptation(lambda body: _FOREIGN_ITEM.search(body) is not None, _drop_foreign_items)
    if not traits.local:
        yield Adaptation(_holds(_OURS, b'"reasoning_text"'), _drop_foreign_reasoning)
    if traits.id_length:
        yield _fit_ids(traits)
    if has_gpt_rules(traits):
        yield _gpt_rules(traits, b'"effort"')


def _for_messages(traits: Capabilities) -> Iterable[Adaptation]:
    yield Adaptation(lambda body: _INPUT.search(body) is not None, _repair_uses)
    if not traits.server_tools:
        yield Adaptation(lambda body: _FOREIGN_BLOCK.search(body) is not None, _drop_foreign_blocks)
    if traits.local:
        yield Adaptation(_holds(_BILLING), _drop_billing)
    if traits.checks_signatures:
        yield Adaptation(_may_hold_foreign_thinking, _drop_foreign_blocks_of_thinking)
        yield Adaptation(_may_hold_blanks, _drop_blanks)
        yield _fit_ids(traits)
        names = [b'"thinking"']
        if traits.is_known:
            names += (b'"output_config"', b'"temperature"', b'"top_', b'"max_tokens"')
        yield Adaptation(_holds(*names), lambda fields, changes: apply_claude_rules(fields, traits, changes.losses))


class _DialectChanges(NamedTuple):
    """What requests in one dialect may need."""

    adaptations: Callable[[Capabilities], Iterable[Adaptation]]
    without_server_tools: Adaptation
    """Whether a body needs it was found when its fields were read."""
    ids: tuple[tuple[str, ...], str, tuple[str, ...]]
    """Where the ids of calls are: fields of a turn, the list in a turn, and fields of its entries."""


_CHANGES: dict[Dialect, _DialectChanges] = {
    Dialect.CHAT: _DialectChanges(
        _for_chat, _without_server_tools(_openai_choice), (("tool_call_id",), "tool_calls", ("id",))
    ),
    Dialect.RESPONSES: _DialectChanges(
        _for_responses, _without_server_tools(_openai_choice), (("call_id", "id"), "", ())
    ),
    Dialect.MESSAGES: _DialectChanges(
        _for_messages, _without_server_tools(_messages_choice), ((), "content", ("id", "tool_use_id"))
    ),
}


def has_gpt_rules(traits: Capabilities) -> bool:
    return traits.is_known and traits.dialect is not Dialect.MESSAGES


def _gpt_rules(traits: Capabilities, *names: bytes) -> Adaptation:
    sampling = tuple(b'"%b"' % name.encode() for name in SAMPLING)
    return Adaptation(
        _holds(*names, *sampling), lambda fields, changes: apply_gpt_rules(fields, traits, changes.losses)
    )


# -- images -------------------------------------------------------------------------------------------------------


def refuse_remote(value: Any) -> None:
    """Raises ClientError 400 if an image or another file in the document is given by its address."""
    for part in image_parts(value):
        for name, _ in remote_in(part):
            raise refused_url(f"{name}.url" if isinstance(part[name], dict) else name)
    for name in files_elsewhere(value):
        raise refused_url(name)
