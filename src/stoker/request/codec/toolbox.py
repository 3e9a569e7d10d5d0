"""Which tools a request offers, in any dialect, and whether they can change files. Pure, and never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

_ABSENT = msgspec.Raw(b"")
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
CHANGES = re.compile(
    r"(?<!cr)edit|writ|(?<!dis)patch|replac|insert|creat|delet|remov|renam|append|modif|updat|save|shell|bash|exec|terminal"
    r"|command|console|interpreter|notebook|computer|commit|apply|mkdir|upload|refactor"
    r"|(?<![a-z])(?:mv|rm|cp|sh|zsh|pwsh|cmd|run|put|move|copy|git|sed|python|repl|touch|fix|format|agent|task|mcp)(?![a-z])"
)
"""Words in the name or type of a tool that can change files, or can run or request something that can. Camel case is
split first, and prefixes (`mcp__files__`) do not matter.
"""
READS = re.compile(
    r"(?:get|list|read|search|find|show|view|look|fetch|query)_"
    r"(?!.*(?:writ|edit|delet|remov|renam|replac|patch|shell|bash|exec|and_|or_))"
)
"""First words in the names of tools that only read: `get_task`, `list_commits`."""
DESCRIBED = re.compile(
    r"\b(?:edit|modif|writ|chang|creat|delet|mov|renam|patch|overwrit|replac|sav)\w{0,8}\b[^.\n]{0,60}"
    r"\b(?:files?|folders?|director\w+|disk|code|repo\w*|workspace|documents?)\b"
    r"|\b(?:run|execut|launch)\w{0,8}\b[^.\n]{0,60}\b(?:commands?|shell|scripts?|bash|programs?|code|process\w*)\b",
    re.IGNORECASE,
)
"""Words in a tool's description, for tools whose name does not decide."""
MOST_DESCRIBED = 300
"""Characters of a description that are read."""
SERVERS = ("mcp", "mcp_toolset", "tool_search")
"""Types of tools that stand for other tools, which the request does not list."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Tool(msgspec.Struct, gc=False):
    """Chat nests it under `function`; a namespace of Responses holds `tools`."""

    type: Any = ""
    name: Any = ""
    description: msgspec.Raw = _ABSENT
    function: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT


class Toolbox(NamedTuple):
    size: int = 0
    changes_files: bool = False


_tools = msgspec.json.Decoder(list[_Tool])
_tool = msgspec.json.Decoder(_Tool)
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_text = msgspec.json.Decoder(str)


def toolbox(raw: msgspec.Raw) -> Toolbox:
    """Reads a list of tools; anything else has no tools."""
    if bytes(memoryview(raw)[:1]) != b"[":
        return Toolbox()
    try:
        found = _tools.decode(raw)
    except _WRONG:
        return _odd(raw)
    return Toolbox(len(found), _changes(list(_flat(found))))


def _odd(raw: msgspec.Raw) -> Toolbox:
    """A list with entries that are not tools: engines may read these in any way."""
    try:
        return Toolbox(len(_raws.decode(raw)), True)
    except _WRONG:
        return Toolbox(0, True)


def _flat(tools: Iterable[_Tool], depth: int = 0) -> Iterator[_Tool]:
    for tool in tools:
        yield tool
        for raw in (tool.function, tool.tools) if depth < 2 else ():
            head = bytes(memoryview(raw)[:1])
            try:
                if head in (b"{", b"["):
                    yield from _flat([_tool.decode(raw)] if head == b"{" else _tools.decode(raw), depth + 1)
            except _WRONG:
                yield _Tool(type=SERVERS[0])


def _changes(tools: Iterable[_Tool]) -> bool:
    tools = list(tools)
    if any(tool.type in SERVERS or _named(tool.name) or _named(tool.type) for tool in tools):
        return True
    return any(tool.description and _described(tool.description) for tool in tools)


def _named(name: object) -> bool:
    if not isinstance(name, str) or name == "function":
        return False
    plain = _CAMEL.sub("_", name[:200]).lower().replace("-", "_")
    last = plain.rsplit("__", 1)[-1]
    return CHANGES.search(last) is not None and READS.match(last) is None


def _described(raw: msgspec.Raw) -> bool:
    try:
        return DESCRIBED.search(_text.decode(raw)[:MOST_DESCRIBED]) is not None
    except _WRONG:
        return False
