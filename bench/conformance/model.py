"""`python -m bench.conformance.model --port N`: a model server that does what it is told.

It speaks Chat Completions and looks up everything that it says in the request: the exact words it is asked to reply
with, a code that an earlier turn mentions, the arguments of a tool. So a conversation that Stoker continues wrongly
gets a wrong answer. The rules are those of following instructions, and none of them knows a suite.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]
_DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_EXACTLY = re.compile(r"\b(?:exactly|answer with|say)\b:? +\"?(.+?)\"?(?: and nothing else)?(?:[.\n]|$)", re.IGNORECASE)
_CODE = re.compile(r"\bcode(?: word)? ?[:=] ?(\w+)", re.IGNORECASE)
_NAMES = re.compile(r"\b([A-Z][a-z]+(?: and [A-Z][a-z]+)+)")
_EVENT = re.compile(r"\bgoing to an? ([a-z ]+?) on ([A-Z][a-z]+)")
_PLACE = re.compile(r"\bin ([A-Z][a-z]+(?: [A-Z][a-z]+)*)")
_PLAIN = "Gladly. Here is a short answer in three sentences. That is all that there is to say."


class Said(NamedTuple):
    """One answer."""

    text: str = ""
    call: tuple[str, str] | None = None
    """A tool's name, and its arguments."""
    thinking: str = ""


def answer(request: Json) -> Said:
    """1. a tool's result is told  2. a tool that is offered is called  3. JSON is filled in  4. words are followed"""
    turns = [(str(turn["role"]), text_of(turn.get("content"))) for turn in request["messages"]]
    task = "\n".join(text for role, text in turns if role in ("system", "developer")) + "\n" + asked(turns)
    thinking = "Let me think." if wants_thinking(request) else ""
    results = [text for role, text in turns if role == "tool"]
    if results and turns[-1][0] in ("tool", "user"):
        return Said(", ".join(re.findall(r"-?\d+", results[-1])) or results[-1], thinking=thinking)  # 1
    tool = chosen(request)
    if tool is not None:
        function = tool["function"]
        arguments = filled(function.get("parameters") or {}, task, function["name"])
        return Said(call=(function["name"], json.dumps(arguments)), thinking=thinking)  # 2
    format = request.get("response_format") or {}
    if format.get("type") == "json_schema":
        return Said(json.dumps(filled(format["json_schema"]["schema"], task)), thinking=thinking)  # 3
    if format.get("type") == "json_object":
        found = re.search(r"\{.*\}", task)
        return Said(found[0] if found else "{}", thinking=thinking)
    return Said(followed(task, turns), thinking=thinking)  # 4


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def asked(turns: list[tuple[str, str]]) -> str:
    """The last turn of the user."""
    return next((text for role, text in reversed(turns) if role == "user"), "")


def wants_thinking(request: Json) -> bool:
    switch = (request.get("chat_template_kwargs") or {}).get("enable_thinking")
    return bool(switch) or request.get("reasoning_effort") in ("low", "medium", "high")


def chosen(request: Json) -> Json | None:
    tools, choice = request.get("tools") or [], request.get("tool_choice", "auto")
    if not tools or choice == "none":
        return None
    wanted = choice["function"]["name"] if isinstance(choice, dict) else None
    return next((tool for tool in tools if tool["function"]["name"] == wanted), dict(tools[0]))


def filled(schema: Json, task: str, tool: str = "") -> Json:
    """An object that matches the schema, with what the task says."""
    numbers = iter(re.findall(r"-?\d+", task))
    found: Json = {}
    for name, kind in schema.get("properties", {}).items():
        given = re.search(rf'\b{re.escape(name)} ?= ?"?(-?\w+)', task)
        if kind.get("type") in ("number", "integer"):
            found[name] = int(given[1]) if given else int(next(numbers, "48"))
        elif kind.get("type") == "array":
            named = _NAMES.search(task)
            found[name] = named[1].split(" and ") if named else []
        elif "enum" in kind:
            found[name] = kind["enum"][0]
        else:
            found[name] = given[1] if given else words(name, task, tool)
    return found


def words(name: str, task: str, tool: str) -> str:
    """A text for the property of this name."""
    event, place = _EVENT.search(task), _PLACE.search(task)
    if name == "input":  # a tool that takes any text
        sum_of = [str(_DIGITS[word]) for word in re.findall(r"[a-z]+", task) if word in _DIGITS]
        return " + ".join(sum_of) if "math" in tool else 'print("hello world")'
    if event is not None and name in ("name", "date"):
        return event[1].title() if name == "name" else event[2]
    return place[1] if place else "ok"


def followed(task: str, turns: list[tuple[str, str]]) -> str:
    last = asked(turns)
    if "code" in last and "?" in last:
        codes = [found[1] for role, text in turns if role == "user" and (found := _CODE.search(text))]
        return codes[-1] if codes else "I know no code."
    if "only the number" in last:
        spoken = " ".join(text for role, text in turns if role == "assistant").lower()
        return next((word for word in re.findall(r"[a-z]+", spoken) if word in _DIGITS), "none")
    if "reply ok" in last.lower():
        return "OK"
    exact = _EXACTLY.search(last) or _EXACTLY.search(task)
    return exact[1] if exact else _PLAIN


# -- the wire ------------------------------------------------------------------------------------------------------


def usage(request: Json, said: Said) -> Json:
    prompt = sum(len(text_of(turn.get("content")).split()) for turn in request["messages"]) or 1
    spoken = len(said.text.split()) + len(said.thinking.split()) + (said.call is not None)
    return {"prompt_tokens": prompt, "completion_tokens": spoken, "total_tokens": prompt + spoken}


def whole(request: Json, said: Said) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.call is not None:
        message["tool_calls"] = [call_of(said.call)]
    reason = "stop" if said.call is None else "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**envelope(request, "chat.completion"), "choices": [choice], "usage": usage(request, said)}


def chunks(request: Json, said: Said) -> Iterator[Json]:
    head = envelope(request, "chat.completion.chunk")
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in pieces(said.thinking)]
    deltas += [{"content": piece} for piece in pieces(said.text)]
    if said.call is not None:
        deltas.append({"tool_calls": [{"index": 0, **call_of(said.call)}]})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "stop" if said.call is None else "tool_calls"
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage(request, said)}


def pieces(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def call_of(call: tuple[str, str]) -> Json:
    name, arguments = call
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


def envelope(request: Json, kind: str) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": int(time.time()), "model": request["model"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "obedient", "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not isinstance(request.get("messages"), list):
            self._send(400, {"error": {"message": "'messages' must be a list", "type": "invalid_request_error"}})
        elif request.get("stream"):
            frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(request, answer(request))]
            self._reply(200, "text/event-stream", "".join([*frames, "data: [DONE]\n\n"]).encode())
        else:
            self._send(200, whole(request, answer(request)))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the bench prints one table."""

    def _send(self, status: int, document: Json) -> None:
        self._reply(status, "application/json", json.dumps(document).encode())

    def _reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.conformance.model", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--port", type=int, required=True)
    with ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
