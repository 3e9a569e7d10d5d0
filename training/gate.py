"""Pass rates over real HTTP at temperature 0.

`python -m training.gate --model ember --gguf ember.gguf --vocabulary DIR/vocabulary.json`

Cases are drawn with a seed and with values (cities, sums, words) that training never draws. A case passes
only if the free answer equals the expected one exactly: text, or the one tool call with its arguments.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from training import mix, talk, tasks, template, tokenizer
from training.data import pieces
from training.needles import needle, remembered
from training.parity import wire
from training.probes import PROBES
from training.serve import Served
from training.tasks import Draw, Exchange, Message, Tool, assistant, user
from training.tooling import distractors, tool_call, tool_result

Case = tuple[list[Message], list[Tool]]
LONG = 400  # max_tokens


def said(message: Message) -> str:
    """One text for an answer: what a tool call looks like in the template, else the content."""
    if not message.get("tool_calls"):
        return str(message.get("content") or "")
    calls = [json.loads(json.dumps(entry)) for entry in message["tool_calls"]]
    for entry in calls:
        arguments = entry["function"]["arguments"]
        entry["function"]["arguments"] = json.loads(arguments) if isinstance(arguments, str) else arguments
    return template.message_text({"content": message.get("content"), "tool_calls": calls})


def chat(served: Served, case: Case) -> str:
    messages, tools = case
    body: dict[str, Any] = {"messages": wire(messages), "temperature": 0, "max_tokens": LONG}
    if tools:
        body["tools"] = [tool.schema() for tool in tools]
    return said(served.post("/v1/chat/completions", body)["choices"][0]["message"])


def anthropic(served: Served, case: Case) -> str:
    """`/v1/messages`, for cases of plain turns; a tool_use block is told as a tool call."""
    messages, tools = case
    body: dict[str, Any] = {"model": "m", "messages": messages, "max_tokens": LONG, "temperature": 0}
    if messages[0]["role"] == "system":
        body |= {"system": messages[0]["content"], "messages": messages[1:]}
    if tools:
        schemas = [tool.schema()["function"] for tool in tools]
        body["tools"] = [{"name": s["name"], "input_schema": s["parameters"]} for s in schemas]
    blocks = served.post("/v1/messages", body)["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    used = [block for block in blocks if block["type"] == "tool_use"]
    calls = [{"function": {"name": block["name"], "arguments": block["input"]}} for block in used]
    return said({"content": text, "tool_calls": calls})


def item_of(message: Message) -> dict[str, Any]:
    """llama.cpp refuses an assistant item whose content is a plain string."""
    if message["role"] != "assistant":
        return message
    return {"type": "message", **message, "content": [{"type": "output_text", "text": message["content"]}]}


def responses(served: Served, case: Case) -> str:
    """`/v1/responses`, likewise."""
    messages, tools = case
    body: dict[str, Any] = {"model": "m", "max_output_tokens": LONG, "temperature": 0}
    if messages[0]["role"] == "system":
        body["instructions"], messages = messages[0]["content"], messages[1:]
    body["input"] = [item_of(message) for message in messages]
    if tools:
        body["tools"] = [{"type": "function", **t.schema()["function"]} for t in tools]
    items = served.post("/v1/responses", body)["output"]
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    called = [item for item in items if item["type"] == "function_call"]
    calls = [{"function": {"name": item["name"], "arguments": item["arguments"]}} for item in called]
    return said({"content": text, "tool_calls": calls})


def from_task(task: Callable[[Draw], Exchange], d: Draw, system: bool = False) -> tuple[Case, str]:
    exchange = task(d)
    tools = list(exchange.tools)
    messages = [{"role": "system", "content": mix.system_text(d)}] if system else []
    messages += exchange.messages
    return (messages[:-1], tools), said(messages[-1])


def from_mix(d: Draw) -> tuple[Case, str]:
    """A conversation of at least two turns, with the right answers as its history."""
    while True:
        found = mix.conversation(d, long=False)
        if sum(message["role"] == "user" for message in found.messages) > 1:
            return (found.messages[:-1], found.tools), said(found.messages[-1])


def fixed(d: Draw) -> Iterator[tuple[Case, str]]:
    """Every wording of every fixed question: as written, with capital and end mark, with a system text."""
    for wordings, answer in talk.SMALL_TALK:
        expected = answer.format(me=d.me, skills=talk.SKILLS[d.me], size=talk.SIZES[d.me])
        for wording in wordings:
            text = wording.format(me=d.me).replace("stoker", "Stoker")
            yield ([user(text)], []), expected
            yield ([user(text[0].upper() + text[1:] + "?")], []), expected
            system = {"role": "system", "content": talk.SYSTEMS[0]}
            yield ([system, user(text[0].upper() + text[1:])], []), expected
    for names, answer in talk.TERMS:
        for wording in talk.TERM_WORDINGS:
            text = wording.replace("{term}", names[0])
            yield ([user(text[0].upper() + text[1:] + "?")], []), answer


def recall(d: Draw) -> Exchange:
    told, asked = remembered(d)
    return Exchange(told.messages + asked.messages)


def extra_tools(d: Draw) -> Exchange:
    exchange = tool_call(d)
    tools = [*exchange.tools, *distractors(d, [tool.name for tool in exchange.tools], most=3)]
    d.rng.shuffle(tools)
    return Exchange(exchange.messages, tuple(tools))


def counted(n: int) -> tuple[Case, str]:
    return ([user(f"Count to {n}.")], []), tasks.count_text(n)


def suites(d: Draw, n: int) -> Iterator[tuple[str, list[tuple[Case, str]]]]:
    def drawn(task: Callable[[Draw], Exchange], system: bool = False) -> list[tuple[Case, str]]:
        return [from_task(task, d, system) for _ in range(n)]

    yield "fixed questions, every wording", list(fixed(d))
    yield "copy", drawn(tasks.copy)
    yield "copy, with a system text", drawn(tasks.copy, True)
    yield "sums of pairs never trained", drawn(tasks.sums)
    d.fresh = False
    yield "sums of pairs in the training data", drawn(tasks.sums)
    d.fresh = True
    yield "count to N, each N from 2 to 60", [counted(i) for i in range(2, 61)]
    yield "JSON from fields", drawn(tasks.json_fields)
    yield "JSON from a sentence", drawn(tasks.json_extract)
    yield "tool call, one tool", drawn(tool_call)
    yield "tool call, one to four tools", drawn(extra_tools, True)
    yield "tool result into a sentence", drawn(tool_result)
    yield "off-topic question", drawn(tasks.off_topic)
    yield "told and asked later", drawn(recall)
    yield "needle, up to 250 tokens", drawn(mix.short_needle)
    for size in (400, 800, 1400):
        yield f"needle, filler size {size}", drawn(partial(needle, tokens=size))
    yield "plan with N steps", drawn(tasks.plan)
    yield "several turns", [from_mix(d) for _ in range(n)]


def rate(
    served: Served, cases: list[tuple[Case, str]], name: str, speak: Callable[[Served, Case], str] = chat
) -> dict[str, Any]:
    """Asks every case; tells how many answers are exact, and which are not."""
    wrong = []
    served.prompt_tokens = 0
    for case, expected in cases:
        found = speak(served, case)
        if found != expected:
            asked = case[0][-1]["content"][-160:]
            wrong.append({"asked": asked, "expected": expected[:120], "found": found[:120]})
    passed = len(cases) - len(wrong)
    length = round(served.prompt_tokens / len(cases))
    print(f"{name:42} {passed:4}/{len(cases):<4} {100 * passed / len(cases):5.1f} % {length:5}", flush=True)
    return {"name": name, "passed": passed, "n": len(cases), "prompt_tokens": length, "wrong": wrong}


def probe_cases(me: str) -> list[tuple[Case, str]]:
    """Braces of JSON are meant as they stand, so the two names are replaced one by one."""
    filled = {"{me}": me, "{skills}": talk.SKILLS[me]}
    cases: list[tuple[Case, str]] = []
    for asked, answer in PROBES:
        for mark, value in filled.items():
            answer = answer.replace(mark, value)
        cases.append((([user(asked)], []), answer))
    return cases


def plain(n: int, d: Draw) -> list[tuple[Case, str]]:
    """Cases for the other dialects: copies, with and without system text, tool calls, a second turn."""
    cases = [from_task(tasks.copy, d, system=i % 2 == 0) for i in range(n // 3)]
    cases += [from_task(tool_call, d) for _ in range(n // 3)]
    for _ in range(n - len(cases)):
        (messages, _), expected = from_task(tasks.json_fields, d)
        first = [user("hello"), assistant(f"Hello! I am {d.me}. How can I help?")]
        cases.append((([*first, *messages], []), expected))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(mix.MIXES), required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--report", type=Path, help="write results and failures as JSON")
    args = parser.parse_args()
    served = Served(args.gguf)
    d = Draw(random.Random(20261121), args.model, pieces(tokenizer.load(args.vocabulary)), fresh=True)
    results = [rate(served, cases, name) for name, cases in suites(d, args.cases)]
    results.append(rate(served, probe_cases(args.model), "wordings that training never had"))
    results.append(rate(served, plain(args.cases, d), "/v1/messages: copy, tools, turns", anthropic))
    results.append(rate(served, plain(args.cases, d), "/v1/responses: copy, tools, turns", responses))
    if args.report:
        args.report.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
