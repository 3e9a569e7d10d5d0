"""An MCP server over stdio that does not keep to the rules, in the way that its first argument names.

It is written by hand: the official SDK says nothing that is wrong. A second argument is a file for its process ids.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MARK = "MARKER-CONTENT-7731"
way = sys.argv[1]
if len(sys.argv) > 2:
    with Path(sys.argv[2]).open("a") as file:
        file.write(f"{os.getpid()}\n")


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def listed() -> dict[str, Any]:
    tool: dict[str, Any] = {"name": "t", "description": "d", "inputSchema": {"type": "object"}}
    match way:
        case "bad_list":
            tool["inputSchema"] = MARK
        case "pattern":
            tool["outputSchema"] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
        case "schema":
            tool["outputSchema"] = {"type": "object", "properties": {"a": {"type": "integer"}}}
        case "name":
            tool |= {"name": "t\nforged line"}
        case "long":
            schema = {"type": "object", "description": "a\u202eb"}
            tool |= {"description": "d\u202e" * 100_000, "inputSchema": schema}
        case "changes":
            tool |= {"name": MARK, "description": str(time.time())}
    return tool


def answer(arguments: dict[str, Any]) -> dict[str, Any] | None:
    match way:
        case "bad_call":
            return {"content": [{"type": "text", "text": {"secret": MARK}}]}
        case "pattern":
            return {"content": [], "structuredContent": {"a": "a" * 40 + "!"}}
        case "schema":
            return {"content": [], "structuredContent": {"a": MARK}}
        case "hang":
            return None
        case "some" if arguments.get("n"):
            return None
        case "notes":
            say(method="notifications/message", params={"level": MARK, "data": MARK})
    return {"content": [{"type": "text", "text": f"ok {json.dumps(arguments)}"}]}


if way == "dies":
    sys.exit("token=" + MARK)
while line := sys.stdin.readline():
    message = json.loads(line)
    if "id" not in message:
        continue
    id, params = message["id"], message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "hostile", "version": "1"}
            say(id=id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
        case "tools/list":
            if way != "no_list":
                say(id=id, result={"tools": [listed()]})
            way = "no_list" if way == "lists_once" else way
        case "tools/call":
            if (result := answer(params.get("arguments") or {})) is not None:
                say(id=id, result=result)
        case _:
            say(id=id, error={"code": -32601, "message": "no"})
if way == "stays":
    time.sleep(600)
