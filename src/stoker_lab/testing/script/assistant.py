"""A scripted assistant: it repeats, counts, adds, finds, fills in forms, thinks and calls several tools at once. Pure.

It answers the kinds of question that test suites ask as a good model would, so that a checker of servers finds no
fault. A token is `TOKEN` characters, in prompts and in answers, so all counts agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker_lab.testing.script.answers import (
    ScriptedAnswer,
    ScriptedBlock,
    ScriptedCall,
    ScriptedStop,
    ScriptedText,
    ScriptedThinking,
    ScriptedUsage,
)
from stoker_lab.testing.script.ask import ScriptedRequest, last_user_text, text_of

TOKEN = 3
"""Characters."""
_WARM = 0.5
"""The temperature from which on a seed changes the prose."""
_TURN = 4
"""Tokens of a turn in addition to its text."""
_CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Germany": "Berlin", "Norway": "Oslo", "Austria": "Vienna",
    "Greece": "Athens", "Portugal": "Lisbon", "Poland": "Warsaw", "Sweden": "Stockholm",
}  # fmt: skip
_NUMBER = re.compile(r"[\d.]+")
_PROSE = (
    "This takes a little patience. Water, light, flour or numbers: each of them follows a few plain rules, and whoever "
    "knows these rules can say what comes next. First one looks at what is there. Then one asks what changed, and why "
    "it changed just now. In the end everything fits together, and the question, {topic}, has found its answer."
)
_WANTED: Sequence[tuple[re.Pattern[str], str, str]] = (
    (re.compile(r"weather in (\w+) and in (\w+)"), "get_weather", "city"),
    (re.compile(r"weather in (\w+)"), "get_weather", "city"),
    (re.compile(r"time is it in (\w+)"), "get_time", "city"),
    (re.compile(r"timer for (\d+) minutes"), "set_timer", "minutes"),
    (re.compile(r"status of the service"), "get_status", ""),
)
"""A question, the tool that answers it, and the parameter that each group fills."""


def prompt_tokens(document: Mapping[str, Any]) -> int:
    """Reads a request in any dialect."""
    texts = [text_of(document.get(name)) for name in ("system", "instructions")]
    turns = document.get("messages", document.get("input"))
    for turn in turns if isinstance(turns, list) else [turns]:
        texts.append(text_of(turn))
        for call in turn.get("tool_calls") or () if isinstance(turn, dict) else ():
            texts.append(json.dumps(call.get("function")))
    tools = [json.dumps(tool) for tool in document.get("tools") or ()]
    return sum(_TURN + len(_tokens(text)) for text in (*texts, *tools) if text)


def refusal(document: Mapping[str, Any], context: int) -> str | None:
    """Why a request is answered with 400."""
    count = prompt_tokens(document)
    if count > context:
        return f"the request exceeds the context: {count} of {context} tokens"
    if any(kind in json.dumps(document.get("messages")) for kind in ('"image_url"', '"type": "image"')):
        return "this model takes text only"
    return None


def answer(ask: ScriptedRequest, thinks: bool) -> ScriptedAnswer:
    """The answer, cut at the request's limits. It thinks unless `enable_thinking` is off."""
    document = ask.document
    switch = document.get("chat_template_kwargs")
    is_off = isinstance(switch, dict) and switch.get("enable_thinking") is False
    asked = last_user_text(document)
    blocks: list[ScriptedBlock] = []
    if thinks and not is_off:
        blocks.append(
            ScriptedThinking(f"They ask: {' '.join(asked.split())[-60:]} I know that, and I answer in brief.")
        )
    said = _calls(document, asked) or [ScriptedText(_text(document, asked))]
    stop: ScriptedStop = "calls" if isinstance(said[0], ScriptedCall) else "end"
    sequence = None
    if isinstance(said[0], ScriptedText):
        text, sequence = _stopped(said[0].text, document)
        said, stop = [ScriptedText(text)], "sequence" if sequence else "end"
    blocks, was_cut = _cut([*blocks, *said], ask.max_tokens)
    usage = ScriptedUsage(input=prompt_tokens(document))
    return ScriptedAnswer(tuple(blocks), stop="length" if was_cut else stop, sequence=sequence, usage=usage, cut=TOKEN)


def _tokens(text: str) -> Sequence[str]:
    return [text[at : at + TOKEN] for at in range(0, len(text), TOKEN)]


def _cut(blocks: list[ScriptedBlock], limit: int | None) -> tuple[list[ScriptedBlock], bool]:
    """The first tokens, and whether there were more."""
    found: list[ScriptedBlock] = []
    left = limit
    for block in blocks:
        text = str(block.arguments) if isinstance(block, ScriptedCall) else getattr(block, "text", "")
        count = len(_tokens(text))
        if left is not None and count > left:
            if left and isinstance(block, ScriptedText | ScriptedThinking):
                found.append(type(block)(text[: left * TOKEN]))
            return found, True
        found.append(block)
        left = None if left is None else left - count
    return found, False


def _stopped(text: str, document: Mapping[str, Any]) -> tuple[str, str | None]:
    """The text up to the first stop string, and which one it was."""
    given = document.get("stop", document.get("stop_sequences")) or []
    places = [(text.find(stop), stop) for stop in ([given] if isinstance(given, str) else given) if stop in text]
    at, stop = min(places, default=(len(text), None))
    return text[:at], stop


# -- calls -----------------------------------------------------------------------------------------------------------


def _calls(document: Mapping[str, Any], asked: str) -> list[ScriptedBlock]:
    """1. a result is there, or calls are forbidden: none  2. what the question wants  3. what the caller forces."""
    choice = document.get("tool_choice")
    offered = dict(map(_function, document.get("tools") or ()))
    if not offered or choice == "none" or _result(document) is not None:
        return []  # 1
    for pattern, name, parameter in _WANTED:
        if name in offered and (found := pattern.search(asked)) is not None:
            values = [int(one) if one.isdigit() else one for one in found.groups()]
            return [ScriptedCall(name, {parameter: value} if parameter else {}) for value in values or [""]]  # 2
    forced = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    if choice in ("required", "any") or forced in offered:  # 3
        name = forced if forced in offered else next(iter(offered))
        return [ScriptedCall(name, instance(offered[name]))]
    return []


def _function(tool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """(name, schema of the arguments) in any dialect."""
    own = tool.get("function", tool)
    return str(own.get("name")), own.get("parameters", own.get("input_schema")) or {}


def _result(document: Mapping[str, Any]) -> str | None:
    turns = document.get("messages", document.get("input"))
    last = turns[-1] if isinstance(turns, list) and turns else None
    if not isinstance(last, dict):
        return None
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return text_of(last.get("content") or last.get("output"))
    parts = last.get("content")
    results = [part for part in parts if part.get("type") == "tool_result"] if isinstance(parts, list) else []
    return text_of(results) if results else None


# -- text ------------------------------------------------------------------------------------------------------------


def _text(document: Mapping[str, Any], asked: str) -> str:
    """1. a form  2. what the tool said  3. words again  4. numbers  5. a fact of the prompt  6. anything else."""
    if (schema := _schema(document)) is not None:
        return json.dumps(instance(schema), ensure_ascii=False)  # 1
    if (told := _result(document)) is not None:
        return f"The tool says: {', '.join(_NUMBER.findall(told)) or told}."  # 2
    if (found := re.search(r"^Repeat[^:]*: (.+)", asked, re.DOTALL)) is not None:
        return " ".join(found[1].split())  # 3
    if (found := re.search(r"numbers from (\d+) to (\d+)", asked)) is not None:
        return " ".join(map(str, range(int(found[1]), int(found[2]) + 1)))  # 4
    if (found := re.search(r"(\d+) \+ (\d+)", asked)) is not None:
        return str(int(found[1]) + int(found[2]))
    if (found := re.search(r"capital of (\w+)", asked)) is not None:
        return _CAPITALS.get(found[1], "Unknown")
    if (found := re.search(r"What is the (secret word of \w+)\?", asked)) is not None:  # 5
        told_there = re.search(rf"{found[1]} is (\w+)", text_of(document.get("messages", document.get("input"))))
        return told_there[1] if told_there is not None else "Nobody said."
    topic = " ".join(asked.split()[-6:]).rstrip("?.")
    return "Hello!" if asked.startswith(("hello", "Say hello")) else _prose(document).format(topic=topic)  # 6


def _prose(document: Mapping[str, Any]) -> str:
    """The same at temperature 0; at a high one its words go round by the seed, if there is one."""
    temperature, seed = document.get("temperature"), document.get("seed")
    words = _PROSE.split(" ")
    hot = isinstance(temperature, int | float) and temperature >= _WARM and isinstance(seed, int)
    start = seed % len(words) if hot and isinstance(seed, int) else 0
    return " ".join(words[start:] + words[:start])


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    form = document.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        found = form.get("json_schema", {}).get("schema")
        return found if isinstance(found, dict) else None
    return {"type": "object"} if isinstance(form, dict) and form.get("type") == "json_object" else None


def instance(schema: Mapping[str, Any]) -> Any:
    """The simplest value that fits the schema."""
    if "anyOf" in schema:
        return instance(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            return {name: instance(one) for name, one in schema.get("properties", {}).items() if name in required}
        case "array":
            return list(_items(schema))
        case "string":
            return "Ada"
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
    return None


def _items(schema: Mapping[str, Any]) -> Iterator[Any]:
    return (instance(schema.get("items", {})) for _ in range(schema.get("minItems", 1)))
