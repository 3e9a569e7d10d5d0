"""Tools and the choice among them, as Responses spells them: flat, with custom ones and those of the vendor between."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.errors import ClientError
from stoker.domain.prompt import Choice, Tool, ToolChoice
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, is_there, shaped


class _Kind(msgspec.Struct):
    """Read first: fields of vendors' tools have shapes of their own."""

    type: str | None = None


class _Tool(msgspec.Struct):
    name: str = ""
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    format: dict[str, Any] | None = None
    tools: list[Raw] | None = None


_TOOL_FIELDS = {"type", *(field.encode_name for field in msgspec.structs.fields(_Tool))}
_CALLED = ("function", "custom")
"""Kinds of tools that the client runs; a namespace holds such ones, and no other namespace."""
_kind = msgspec.json.Decoder(_Kind)
_tool_item = msgspec.json.Decoder(_Tool)
_fields = msgspec.json.Decoder(dict[str, Raw])


# -- read ---------------------------------------------------------------------------------------------------------


def qualified(namespace: str, name: str) -> str:
    """The name of a tool among all of them."""
    return f"{namespace}.{name}" if namespace else name


def read_tools(given: list[Raw], where: str, losses: Losses, namespace: str = "") -> list[Tool]:
    """The tools that the client runs. `where`: their place in the request. Raises ClientError 400."""
    kinds = _CALLED if namespace else (*_CALLED, "namespace")
    tools: list[Tool] = []
    for at, raw in enumerate(given):
        place = f"{where}[{at}]"
        kind = shaped(_kind, raw, place).type
        if kind not in kinds:
            losses.add("server_tools")  # the vendor runs it, or knows its schema by heart
            continue
        tool = shaped(_tool_item, raw, place)
        if _has_more(raw, place):
            losses.add("tool_fields")
        if not tool.name:
            raise ClientError(f"'{place}.name' is missing", code="bad_field", param=f"{place}.name")
        name = qualified(namespace, tool.name)
        if kind == "namespace":
            tools += read_tools(tool.tools or [], f"{place}.tools", losses, tool.name)
        elif kind == "custom":
            grammar = _nested(tool.format)
            tools.append(Tool(name, tool.description, custom=True, grammar=grammar, namespace=namespace))
        else:
            schema = tool.parameters if is_there(tool.parameters) else None
            tools.append(Tool(name, tool.description, schema, tool.strict, namespace=namespace))
    return tools


def _has_more(raw: Raw, where: str) -> bool:
    """Whether a tool has a field that exists nowhere else, and says something by it."""
    fields = shaped(_fields, raw, where)
    return any(
        name not in _TOOL_FIELDS and is_there(value) and bytes(value) != b"false" for name, value in fields.items()
    )


def _nested(format: dict[str, Any] | None) -> dict[str, Any] | None:
    if format is None or format.get("type") != "grammar":
        return format
    return {"type": "grammar", "grammar": {name: value for name, value in format.items() if name != "type"}}


def read_choice(given: str | dict[str, Any] | None, losses: Losses) -> ToolChoice | None:
    """none | auto | required | one by name | a list of allowed ones; a tool that the vendor runs cannot be had.

    Raises ClientError 400.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if given not in ("none", "auto", "required"):
            text = f"'tool_choice' is {given[:40]!r}: none, auto, required or an object is expected"
            raise ClientError(text, code="bad_field", param="tool_choice")
        return ToolChoice(Choice(given))
    kind = given.get("type")
    if kind in _CALLED:
        return ToolChoice(Choice.NAMED, name=_string(given.get("name"), "tool_choice.name"))
    if kind == "allowed_tools":
        return _allowed(given, losses)
    losses.add("server_tools")
    return ToolChoice(Choice.AUTO)


def _allowed(given: dict[str, Any], losses: Losses) -> ToolChoice:
    tools = given.get("tools")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ClientError("'tool_choice.tools' must be a list of tools", code="bad_field", param="tool_choice.tools")
    names = []
    for at, tool in enumerate(tools):
        if tool.get("type") in _CALLED:
            names.append(_string(tool.get("name"), f"tool_choice.tools[{at}].name"))
        else:
            losses.add("server_tools")
    mode = Choice.REQUIRED if given.get("mode") == "required" else Choice.AUTO
    return ToolChoice(mode, allowed=names)


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ClientError(f"'{where}' must be a string", code="bad_field", param=where)
    return value


# -- written ------------------------------------------------------------------------------------------------------


def own_name(tool: Tool) -> str:
    """Its name within its namespace."""
    return tool.name.removeprefix(f"{tool.namespace}.") if tool.namespace else tool.name


def tool_of(tool: Tool) -> dict[str, Any]:
    """A tool as the client wrote it, but for its namespace."""
    if not tool.custom:
        return {
            "type": "function",
            "name": own_name(tool),
            "description": tool.description,
            "parameters": tool.schema,
            "strict": tool.strict,
        }
    custom = {"type": "custom", "name": own_name(tool), "description": tool.description, "format": _flat(tool.grammar)}
    return {name: value for name, value in custom.items() if value is not None}


def _flat(format: Any) -> Any:
    inner = format.get("grammar") if isinstance(format, dict) else None
    return {"type": "grammar", **inner} if isinstance(inner, dict) else format


def choice_of(choice: ToolChoice, customs: set[str]) -> str | dict[str, Any]:
    """`customs`: names of the tools that take any text."""
    if choice.allowed is not None:
        mode = "required" if choice.mode is Choice.REQUIRED else "auto"
        allowed = [_named(name, customs) for name in choice.allowed]
        return {"type": "allowed_tools", "mode": mode, "tools": allowed}
    return _named(choice.name, customs) if choice.mode is Choice.NAMED else choice.mode.value


def _named(name: str, customs: set[str]) -> dict[str, Any]:
    return {"type": "custom" if name in customs else "function", "name": name}
