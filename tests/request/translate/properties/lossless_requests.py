"""Requests that lose nothing on their way to another dialect and back, and what is the same in two spellings.

`local` says for which kind of serve: engines of one's own take thinking and sampling, vendors take users and addresses.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.request.translate.properties.going_through import SIGNER
from tests.request.translate.properties.translation_worlds import OBJECTS, SAYINGS

Document = dict[str, Any]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(12)).decode()
PDF = base64.b64encode(b"%PDF-1.7 of nothing").decode()
_IDS = st.sampled_from(("toolu_{}", "call_{}", "functions.f:{}", "{}", "a b/{}"))
_PLAIN_IDS = st.sampled_from(("toolu_{}", "call-{}", "{}"))
"""Messages takes no others."""
_NAMES = ("f", "get_weather", "mcp__files__read-it")
_TOOLS = st.just([]) | st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True)
_CLOSED = st.builds(
    lambda more: {"type": "object", "properties": {"x": more}, "required": ["x"], "additionalProperties": False},
    OBJECTS,
)
"""Schemas that OpenAI can hold an answer to, as Messages always does."""
_SCHEMAS = st.builds(lambda more: {"type": "object", "properties": {"x": more}, "required": ["x"]}, OBJECTS)
_STOPS = st.lists(SAYINGS.filter(lambda text: bool(text.strip())), min_size=1, max_size=4)
_EFFORTS = ("low", "medium", "high")
"""Those that every serve has; of the others some become the nearest one."""


def _some(draw: st.DrawFn, document: Document, chances: dict[str, st.SearchStrategy[Any]]) -> Document:
    """Each of the fields, or not."""
    for name, values in chances.items():
        if draw(st.booleans()):
            document[name] = draw(values)
    return document


# -- messages -----------------------------------------------------------------------------------------------------


@st.composite
def messages(draw: st.DrawFn, local: bool) -> Document:
    out: Document = {"model": "m", "max_tokens": draw(st.integers(1, 10**6)), "messages": []}
    text = SAYINGS.map(lambda said: {"type": "text", "text": said})
    image = st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
    pdf = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    paper = SAYINGS.map(lambda title: {"type": "document", "source": pdf, "title": title})
    shown = text | image | paper
    if not local:
        shown |= st.just({"type": "image", "source": {"type": "url", "url": "https://a.test/x.png"}})
    said = SAYINGS | st.lists(shown, min_size=1, max_size=3)
    given = st.lists(text, max_size=1)
    given = st.tuples(given, st.lists(image, max_size=2)).map(lambda both: [*both[0], *both[1]]) if local else given
    turns = out["messages"]
    turns.append({"role": "user", "content": draw(said)})
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        blocks: list[Document] = []
        if local and draw(st.booleans()):
            thought = draw(SAYINGS)
            blocks.append({"type": "thinking", "thinking": thought, "signature": SIGNER.sign("m", thought)})
        blocks += draw(st.lists(text, min_size=1, max_size=2))
        results = []
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            id, name = draw(_PLAIN_IDS).format(count), draw(st.sampled_from(_NAMES))
            blocks.append({"type": "tool_use", "id": id, "name": name, "input": draw(OBJECTS)})
            result = {"type": "tool_result", "tool_use_id": id}
            results.append(_some(draw, result, {"content": SAYINGS | given}))
        turns.append({"role": "assistant", "content": blocks})
        rest = draw(st.lists(shown, min_size=0 if results else 1, max_size=2))
        turns.append({"role": "user", "content": [*results, *rest]})
        if not local and draw(st.booleans()):
            turns.append({"role": "system", "content": draw(SAYINGS | st.lists(text, min_size=1, max_size=1))})
    _some(draw, out, {"system": SAYINGS | st.lists(text, min_size=1, max_size=2), "stop_sequences": _STOPS,
                      "stream": st.booleans()})  # fmt: skip
    forced = _messages_tools(draw, out)
    if not local and draw(st.booleans()):
        out["metadata"] = {"user_id": draw(st.text("abc_-", min_size=1, max_size=64))}
    _messages_thinking(draw, out, local, forced)
    if draw(st.booleans()):
        out.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": draw(_CLOSED)}
    return out


def _messages_tools(draw: st.DrawFn, out: Document) -> bool:
    """Whether a call is insisted on."""
    names = draw(_TOOLS)
    if not names:
        return False
    more: dict[str, st.SearchStrategy[Any]] = {
        "description": SAYINGS, "strict": st.booleans(), "type": st.just("custom"),
    }  # fmt: skip
    out["tools"] = [_some(draw, {"name": name, "input_schema": draw(_SCHEMAS)}, more) for name in names]
    kind = draw(st.sampled_from((None, "auto", "any", "tool", "none")))
    if kind is not None:
        choice = out["tool_choice"] = {"type": kind}
        if kind == "tool":
            choice["name"] = names[0]
        if kind != "none":
            _some(draw, choice, {"disable_parallel_tool_use": st.booleans()})
    return kind in ("any", "tool")


def _messages_thinking(draw: st.DrawFn, out: Document, local: bool, forced: bool) -> None:
    """A vendor's chat has no way to say that thinking is on but how much."""
    ways = ["", "disabled", *(() if forced and not local else ("effort", *(("adaptive",) if local else ())))]
    way = draw(st.sampled_from(ways))
    if way in ("disabled", "adaptive"):
        out["thinking"] = {"type": way}
    elif way == "effort":
        out["thinking"] = {"type": "adaptive"}
        out["output_config"] = {"effort": draw(st.sampled_from(_EFFORTS))}


def same_messages(document: Document) -> Document:
    """A string is one block of text; turns of one role are one; system blocks are one text, a blank line between."""
    out = dict(document)
    if isinstance(out.get("system"), list):
        out["system"] = "\n\n".join(block["text"] for block in out["system"])
    turns: list[Document] = []
    for turn in document["messages"]:
        content = turn["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*map(_same_block, content)]
        if turns and turns[-1]["role"] == turn["role"] != "system":
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": turn["role"], "content": blocks})
    out["messages"] = turns
    out["tools"] = [{k: v for k, v in tool.items() if k != "type"} for tool in document.get("tools", ())]
    if not out.get("stream"):
        out.pop("stream", None)
    return out


def _same_block(block: Document) -> Document:
    if block["type"] != "tool_result":
        return block
    content = block.get("content") or []
    return {**block, "content": [{"type": "text", "text": content}] if isinstance(content, str) else content}


# -- chat ---------------------------------------------------------------------------------------------------------


@st.composite
def chat(draw: st.DrawFn, local: bool) -> Document:
    limit = "max_tokens" if local else "max_completion_tokens"
    out: Document = {"model": "m", "messages": [], limit: draw(st.integers(1, 10**6))}
    text = SAYINGS.map(lambda said: {"type": "text", "text": said})
    image = st.just({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})
    url = f"data:application/pdf;base64,{PDF}"
    paper = SAYINGS.map(lambda name: {"type": "file", "file": {"file_data": url, "filename": name}})
    shown = text | image | paper
    if not local:
        shown |= st.just({"type": "image_url", "image_url": {"url": "https://a.test/x.png"}})
    said = SAYINGS | st.lists(shown, min_size=1, max_size=3)
    texts = SAYINGS | st.lists(text, min_size=1, max_size=2)
    turns = out["messages"]
    role = draw(st.sampled_from((None, "system", "developer")))
    if role is not None:
        turns.append({"role": role, "content": draw(texts)})
    turns.append({"role": "user", "content": draw(said)})
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        calls, results = [], []
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            id, name = draw(_IDS).format(count), draw(st.sampled_from(_NAMES))
            function = {"name": name, "arguments": json.dumps(draw(OBJECTS))}
            calls.append({"id": id, "type": "function", "function": function})
            results.append({"role": "tool", "tool_call_id": id, "content": draw(texts)})
        turn: Document = {"role": "assistant"}
        if calls:
            turn["tool_calls"] = calls
        if not calls or draw(st.booleans()):
            turn["content"] = draw(texts)
        turns += (turn, *results)
        if not results or draw(st.booleans()):
            turns.append({"role": "user", "content": draw(said)})
    forced = _chat_tools(draw, out)
    _some(draw, out, {"stop": SAYINGS.filter(lambda stop: bool(stop.strip())) | _STOPS})
    if draw(st.booleans()):
        out |= {"stream": True, "stream_options": {"include_usage": True}}
    if draw(st.booleans()):
        schema = {"name": "answer", "schema": draw(_CLOSED), "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    if local:
        return _some(draw, out, {"temperature": st.floats(0, 1), "top_p": st.floats(0, 1)})
    efforts = st.sampled_from(("none",) if forced else ("none", "low", "medium", "high", "xhigh"))
    return _some(draw, out, {"user": st.text("abc", min_size=1, max_size=64), "reasoning_effort": efforts})


def _chat_tools(draw: st.DrawFn, out: Document) -> bool:
    names = draw(_TOOLS)
    if not names:
        return False
    out["tools"] = [
        {"type": "function", "function": _some(draw, {"name": name, "parameters": draw(_SCHEMAS)},
                                               {"description": SAYINGS, "strict": st.booleans()})}
        for name in names
    ]  # fmt: skip
    kind = draw(st.sampled_from((None, "auto", "required", "named", "none")))
    if kind is not None:
        named = {"type": "function", "function": {"name": names[0]}}
        out["tool_choice"] = named if kind == "named" else kind
        if kind != "none":
            _some(draw, out, {"parallel_tool_calls": st.booleans()})
    return kind in ("required", "named")


def same_chat(document: Document) -> Document:
    """`developer` is `system`; a string is one part; texts of the system and of tools are one."""
    out = dict(document)
    turns: list[Document] = []
    for message in document["messages"]:
        turn = dict(message)
        if turn["role"] == "developer":
            turn["role"] = "system"
        content = turn.pop("content", None)
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if turn["role"] in ("system", "tool"):
            between = "\n\n" if turn["role"] == "system" else "\n"
            parts = [{"type": "text", "text": between.join(part["text"] for part in parts)}]
        turn["content"] = parts
        turn["tool_calls"] = [_same_call(call) for call in turn.get("tool_calls", ())]
        turns.append(turn)
    out["messages"] = turns
    if isinstance(out.get("stop"), str):
        out["stop"] = [out["stop"]]
    return out


def _same_call(call: Document) -> Document:
    function = {**call["function"], "arguments": json.loads(call["function"]["arguments"])}
    return {**call, "function": function}


# -- responses ----------------------------------------------------------------------------------------------------


@st.composite
def responses(draw: st.DrawFn, local: bool) -> Document:
    out: Document = {"model": "m", "input": [], "max_output_tokens": draw(st.integers(16, 10**6))}
    text = SAYINGS.map(lambda said: {"type": "input_text", "text": said})
    detail = st.sampled_from(("auto", "low", "high"))
    image = detail.map(
        lambda found: {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": found}
    )
    url = f"data:application/pdf;base64,{PDF}"
    paper = SAYINGS.map(lambda name: {"type": "input_file", "file_data": url, "filename": name})
    said = SAYINGS | st.lists(text | image | paper, min_size=1, max_size=3)
    given = st.lists(text, min_size=1, max_size=1)
    given = st.tuples(given, st.lists(image, max_size=2)).map(lambda both: [*both[0], *both[1]]) if local else given
    items = out["input"]
    typed = draw(st.booleans())
    items.append({"role": "user", "content": draw(said)} | ({"type": "message"} if typed else {}))
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        if local and draw(st.booleans()):
            thought = [{"type": "reasoning_text", "text": draw(SAYINGS)}]
            items.append({"type": "reasoning", "id": "rs_1", "summary": [], "content": thought})
        parts = [{"type": "output_text", "text": draw(SAYINGS), "annotations": []}]
        if not local and draw(st.booleans()):
            parts.append({"type": "refusal", "refusal": draw(SAYINGS)})
        items.append({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": parts})
        results = []
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            id, name = draw(_IDS).format(count), draw(st.sampled_from(_NAMES))
            call: Document = {"call_id": id, "name": name}
            if not local and draw(st.booleans()):
                items.append({"type": "custom_tool_call", **call, "input": draw(SAYINGS)})
                results.append({"type": "custom_tool_call_output", "call_id": id, "output": draw(SAYINGS | given)})
            else:
                items.append({"type": "function_call", **call, "arguments": json.dumps(draw(OBJECTS))})
                results.append({"type": "function_call_output", "call_id": id, "output": draw(SAYINGS | given)})
        items += results
        items.append({"type": "message", "role": "user", "content": draw(st.lists(text, min_size=1, max_size=2))})
    _some(draw, out, {
        "instructions": SAYINGS, "stream": st.just(True), "temperature": st.floats(0, 2), "top_p": st.floats(0, 1),
        "top_logprobs": st.integers(0, 5), "store": st.just(False),
    })  # fmt: skip
    formats = st.just({"type": "json_object"}) | st.builds(_schema, SAYINGS, _SCHEMAS, SAYINGS, st.booleans())
    config = _some(draw, {}, {"format": formats} if local else {"format": formats, "verbosity": st.just("low")})
    if config:
        out["text"] = config
    _responses_tools(draw, out, local)
    if local:
        return out
    word = st.text("abc", min_size=1, max_size=64)
    return _some(draw, out, {
        "user": word, "safety_identifier": word, "prompt_cache_key": word, "service_tier": st.just("flex"),
        "metadata": st.dictionaries(word, word, min_size=1, max_size=2),
        "reasoning": st.fixed_dictionaries({"effort": st.sampled_from(("none", "minimal", *_EFFORTS, "xhigh"))}),
    })  # fmt: skip


def _schema(name: str, schema: Document, description: str, strict: bool) -> Document:
    return {"type": "json_schema", "name": name, "schema": schema, "description": description, "strict": strict}


def _responses_tools(draw: st.DrawFn, out: Document, local: bool) -> None:
    names = draw(_TOOLS)
    if not names:
        return
    tools: list[Document] = []
    for name in names:
        if not local and draw(st.booleans()):
            grammar = {"type": "grammar", "syntax": "lark", "definition": draw(SAYINGS)}
            forms = st.sampled_from(({"type": "text"}, grammar))
            tools.append(_some(draw, {"type": "custom", "name": name}, {"description": SAYINGS, "format": forms}))
        else:
            tool = {"type": "function", "name": name, "parameters": draw(_SCHEMAS), "strict": draw(st.booleans())}
            tools.append(_some(draw, tool, {"description": SAYINGS}))
    out["tools"] = tools
    named = [{"type": tool["type"], "name": tool["name"]} for tool in tools]
    allowed = st.sampled_from(("auto", "required")).map(
        lambda mode: {"type": "allowed_tools", "mode": mode, "tools": named}
    )
    choices = st.sampled_from(("auto", "none", "required")) | st.sampled_from(named) | st.sampled_from(named)
    choices = choices if local else choices | allowed
    _some(draw, out, {"tool_choice": choices, "parallel_tool_calls": st.booleans()})


def same_responses(document: Document) -> Document:
    """A string is one part; each part of the assistant's is a message; ids of items and what is so anyway are left
    out.
    """
    out = {name: value for name, value in document.items() if name not in ("store", "include")}
    items: list[Document] = []
    for given in document["input"]:
        item = {name: value for name, value in given.items() if name not in ("id", "status")}
        item.setdefault("type", "message")
        name = "output" if item["type"].endswith("_output") else "content"
        if isinstance(item.get(name), str):
            item[name] = [{"type": "input_text", "text": item[name]}]
        if "arguments" in item:
            item["arguments"] = json.loads(item["arguments"])
        if item.get("role") == "assistant":
            items += ({**item, "content": [_same_part(part)]} for part in item["content"])
        else:
            items.append(item)
    out["input"] = items
    return out


def _same_part(part: Document) -> Document:
    return {"type": "input_text", "text": part["text"]} if "text" in part else part


Requests = Callable[[bool], st.SearchStrategy[Document]]
