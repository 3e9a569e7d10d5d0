"""Well-built answers of many kinds, each with the request that it answers. The same seed gives the same cases."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec

from bench.verifier.phrases import OTHER_CODE, PYTHON, SENTENCES, SNIPPETS, WORDS
from bench.verifier.shapes import schema, value
from stoker.domain.answer import Answer, AnswerBlock, StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import (
    AnswerFormat,
    Choice,
    Prompt,
    Raw,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)


class Case(NamedTuple):
    kind: str
    prompt: Prompt
    answer: Answer


def prompt(text: str = "Please do it.", **settings: Any) -> Prompt:
    turns = settings.pop("turns", None) or [Turn(Role.USER, [Text(text)])]
    return Prompt(Dialect.CHAT, "m", turns, **settings)


def answer(*blocks: AnswerBlock, stop: StopReason = StopReason.END) -> Answer:
    return Answer("id", "m", list(blocks), stop)


def cases(seed: int, n: int) -> list[Case]:
    """The kinds take turns."""
    rng = Random(seed)
    kinds = list(KINDS)
    return [KINDS[kinds[i % len(kinds)]](rng, kinds[i % len(kinds)]) for i in range(n)]


def paragraph(rng: Random, language: str = "English", least: int = 1, most: int = 6) -> str:
    between = "" if language in ("Chinese", "Japanese") else " "
    return between.join(rng.choices(SENTENCES[language], k=rng.randint(least, most)))


def fill(rng: Random, template: str) -> str:
    name = rng.choice(WORDS)
    return template.format(name=name, title=name.title(), n=rng.randint(2, 99))


def fenced(label: str, code: str, indent: str = "", fence: str = "```") -> str:
    lines = f"{fence}{label}\n{code.rstrip(chr(10))}\n{fence}".split("\n")
    return "\n".join(indent + line if line else line for line in lines)


def _text_case(kind: str, text: str, **settings: Any) -> Case:
    return Case(kind, prompt(**settings), answer(Text(text)))


def _prose(rng: Random, kind: str) -> Case:
    language = rng.choice(list(SENTENCES))
    return _text_case(kind, "\n\n".join(paragraph(rng, language) for _ in range(rng.randint(1, 12))))


def _markdown(rng: Random, kind: str) -> Case:
    lines = [f"## {rng.choice(WORDS).title()}", "", paragraph(rng), ""]
    for i in range(rng.randint(2, 9)):
        lines.append(f"{i + 1}. **{rng.choice(WORDS)}**: {paragraph(rng, most=2)}")
        lines.extend(f"   - {paragraph(rng, most=1)}" for _ in range(rng.randint(0, 3)))
    return _text_case(kind, "\n".join([*lines, "", "---", "", "> " + paragraph(rng)]))


def _table(rng: Random, kind: str) -> Case:
    rows = [f"| {rng.choice(WORDS)} | {rng.randint(0, 3)} | - | yes |" for _ in range(rng.randint(2, 120))]
    return _text_case(kind, "\n".join(["| name | n | x | ok |", "|---|---|---|---|", *rows]))


def _log(rng: Random, kind: str) -> Case:
    lines = [f"2026-03-0{i % 9 + 1}T00:00:00Z INFO worker ready" for i in range(rng.randint(5, 200))]
    return _text_case(kind, "Here is what it prints:\n\n" + fenced(rng.choice(("", "text", "log")), "\n".join(lines)))


def _repeats(rng: Random, kind: str) -> Case:
    line = rng.choice(("I will not talk in class.", "0, 0, 0, 0, 0, 0, 0, 0,", "na na na na hey hey hey"))
    return _text_case(kind, "\n".join([line] * rng.randint(10, 100)))


def _python(rng: Random, kind: str) -> Case:
    code = "\n\n".join(fill(rng, rng.choice(PYTHON)) for _ in range(rng.randint(1, 3)))
    label = rng.choice(("python", "py", "Python", 'python title="a.py"'))
    indent = rng.choice(("", "", "   "))
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced(label, code, indent)}\n\n{paragraph(rng)}")


def _snippet(rng: Random, kind: str) -> Case:
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced('python', fill(rng, rng.choice(SNIPPETS)))}\n")


def _other_code(rng: Random, kind: str) -> Case:
    parts = []
    for label in rng.sample(list(OTHER_CODE), rng.randint(1, 4)):
        parts += [paragraph(rng), fenced(label, fill(rng, OTHER_CODE[label]), fence=rng.choice(("```", "````", "~~~")))]
    return _text_case(kind, "\n\n".join(parts))


def _nested_fences(rng: Random, kind: str) -> Case:
    inner = fenced(rng.choice(("python", "bash", "json")), fill(rng, OTHER_CODE["bash"]))
    text = f"# {rng.choice(WORDS)}\n\n{inner}\n\n{paragraph(rng)}"
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced('markdown', text, fence=rng.choice(('```', '````')))}\n")


def _json_fence(rng: Random, kind: str) -> Case:
    found = value(rng, schema(rng))
    text = json.dumps(found, indent=rng.choice((None, 2)), ensure_ascii=rng.random() < 0.5)
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced('json', text)}\n")


JSON_LIKE = (
    '{\n  "a": 1,\n  ...\n}',
    '{\n  // it is a comment\n  "a": 1\n}',
    '{"a": 1}\n{"a": 2}',
    '"key": "value"',
    '{"id": <your id>, "n": 3}',
    "[1, 2, …]",
    '{\n  "a": [1, 2,],\n}',
    '{"a": "..."}',
    "",
)


def _json_like(rng: Random, kind: str) -> Case:
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced('json', rng.choice(JSON_LIKE))}\n\n{paragraph(rng)}")


def _wanted_json(rng: Random, kind: str) -> Case:
    wanted = schema(rng)
    has_schema = rng.random() < 0.7
    text = json.dumps(value(rng, wanted), indent=rng.choice((None, 2, 4)), ensure_ascii=rng.random() < 0.5)
    form = AnswerFormat(Raw(msgspec.json.encode(wanted)) if has_schema else None)
    return _text_case(kind, rng.choice(("", "\n")) + text + rng.choice(("", "\n")), format=form)


def _diff(rng: Random, kind: str) -> Case:
    texts = []
    for _ in range(rng.randint(1, 3)):
        old = fill(rng, rng.choice(PYTHON)).split("\n") * rng.randint(1, 2)
        new = list(old)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(new))
            new[at : at + rng.randint(0, 2)] = [f"    {rng.choice(WORDS)} = {rng.randint(0, 9)}"] * rng.randint(0, 2)
        if new == old:
            new.append("x = 1")
        lines = list(difflib.unified_diff(old, new, "a/f.py", "b/f.py", lineterm="", n=rng.choice((0, 1, 3))))
        if rng.random() < 0.3:
            lines = ["diff --git a/f.py b/f.py", "index 1234567..89abcde 100644", *lines]
        if rng.random() < 0.4:
            lines = [line.rstrip() or line for line in lines]  # what editors do
        texts.append("\n".join(lines))
    return _text_case(kind, f"{paragraph(rng)}\n\n{fenced(rng.choice(('diff', 'patch')), chr(10).join(texts))}\n")


def _edits(rng: Random, kind: str) -> Case:
    code = fill(rng, rng.choice(PYTHON))
    line = rng.choice([line for line in code.split("\n") if line.strip()])
    edit = f"f.py\n```python\n<<<<<<< SEARCH\n{line}\n=======\n{line}  # new\n>>>>>>> REPLACE\n```\n"
    asked = f"Answer in blocks that begin with\n<<<<<<< SEARCH\nThe file:\n{code}"
    return Case(kind, prompt(asked), answer(Text(f"{paragraph(rng)}\n\n" + edit * rng.randint(1, 3))))


def tools(rng: Random) -> list[Tool]:
    names = rng.sample(WORDS, rng.randint(1, 6))
    return [Tool(f"{name}_{i}", rng.choice((None, "Does it.")), _raw(schema(rng))) for i, name in enumerate(names)]


def _raw(found: dict[str, Any]) -> Raw:
    return Raw(msgspec.json.encode(found))


def call(rng: Random, tool: Tool, id: str) -> ToolCall:
    arguments = value(rng, msgspec.json.decode(tool.schema or b"{}"))
    return ToolCall(id, tool.name, json.dumps(arguments, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2))))


def _call(rng: Random, kind: str) -> Case:
    offered = tools(rng)
    blocks: list[AnswerBlock] = [Text(paragraph(rng))] if rng.random() < 0.5 else []
    choice = rng.choice((None, ToolChoice(Choice.AUTO), ToolChoice(Choice.REQUIRED)))
    asked = prompt(tools=offered, tool_choice=choice, parallel_calls=rng.choice((None, False)))
    return Case(kind, asked, answer(*blocks, call(rng, rng.choice(offered), "c1"), stop=StopReason.CALLS))


def _parallel_calls(rng: Random, kind: str) -> Case:
    offered = tools(rng)
    calls = [call(rng, rng.choice(offered), f"c{i}") for i in range(rng.randint(2, 6))]
    return Case(kind, prompt(tools=offered), answer(*calls, stop=StopReason.CALLS))


def _named_call(rng: Random, kind: str) -> Case:
    offered = tools(rng)
    tool = rng.choice(offered)
    choice = ToolChoice(Choice.NAMED, tool.name)
    return Case(kind, prompt(tools=offered, tool_choice=choice), answer(call(rng, tool, "c1"), stop=rng.choice(_ENDS)))


_ENDS = (StopReason.END, StopReason.CALLS)


def _bare_call(rng: Random, kind: str) -> Case:
    offered = [Tool("now"), Tool("patch", custom=True)]
    calls = [ToolCall("c1", "now", rng.choice(("", "{}", " ", "null"))), ToolCall("c2", "patch", "*** Begin {", True)]
    return Case(kind, prompt(tools=offered), answer(*calls, stop=StopReason.CALLS))


def _agent_turn(rng: Random, kind: str) -> Case:
    offered = tools(rng)
    one = call(rng, rng.choice(offered), "c1")
    again = ToolCall("c2", one.name, one.arguments)  # asking again, as who waits for something does
    turns = [
        Turn(Role.USER, [Text("Wait for it.")]),
        Turn(Role.ASSISTANT, [one]),
        Turn(Role.USER, [ToolResult("c1", [Text("not yet")])]),
    ]
    said = answer(again, stop=StopReason.CALLS) if rng.random() < 0.5 else answer(Text(paragraph(rng)))
    return Case(kind, prompt(turns=turns, tools=offered), said)


def _about_templates(rng: Random, kind: str) -> Case:
    texts = (
        "The template ends each turn with `<|im_end|>`, and a call stands in `<tool_call>`.",
        "Llama 2:\n\n```\n<s>[INST] Hello [/INST]\n```\n\nThat is all.",
        "Qwen writes <think> before it answers, which some engines cut out.",
        "<|im_start|> begins a turn, and\n<|im_end|>\nends it.",
        "    <tool_call>\n\nis how Hermes does it.",
    )
    turn = Turn(Role.USER, [Text("What do <|im_start|> and <|im_end|> mean?")])
    return _text_case(kind, rng.choice(texts), turns=[turn])


def _lost_letters(rng: Random, kind: str) -> Case:
    turn = Turn(Role.USER, [Text("Why do I see caf\ufffd?")])
    return _text_case(kind, "You see caf\ufffd because the file is Latin-1.", turns=[turn])


def _small_budget(rng: Random, kind: str) -> Case:
    text = paragraph(rng, least=2)
    said = answer(Text(text[: rng.randint(1, len(text) - 3)].strip() or "A"), stop=StopReason.LENGTH)
    return Case(kind, prompt(max_tokens=rng.choice((1, 16, 64, 256))), said)


def _stop_string(rng: Random, kind: str) -> Case:
    text = "```python\n" + fill(rng, rng.choice(PYTHON))
    return Case(kind, prompt(stop=["```"]), answer(Text(text), stop=rng.choice((StopReason.END, StopReason.SEQUENCE))))


def _prefilled(rng: Random, kind: str) -> Case:
    turns = [Turn(Role.USER, [Text("As JSON.")]), Turn(Role.ASSISTANT, [Text("{")])]
    return _text_case(kind, f'"a": {rng.randint(0, 9)}}}', turns=turns, continues=True, format=AnswerFormat())


def _thinking(rng: Random, kind: str) -> Case:
    said = answer(Thinking("Hm, <think> no. " * rng.randint(1, 99)), Text(paragraph(rng)))
    return Case(kind, prompt(), said)


def _refusal(rng: Random, kind: str) -> Case:
    blocks = rng.choice(([Refusal("I can't help with that.")], []))
    return Case(kind, prompt(format=AnswerFormat()), answer(*blocks, stop=StopReason.FILTERED))


def _short(rng: Random, kind: str) -> Case:
    texts = ("42", "Yes", "B", "👍", "}", "C++", "是", "0.5,", "\\boxed{\\frac{1}{3}}", "a\tb")
    return _text_case(kind, rng.choice(texts))


def _raw_document(rng: Random, kind: str) -> Case:
    texts = (
        "name,size\n" + "".join(f"{word},{i}\n" for i, word in enumerate(WORDS)),
        "<?xml version='1.0'?>\n<list>" + "<item/>" * rng.randint(1, 80) + "</list>",
        "\n".join(f"x_{{{i}}} = \\sum_{{k=0}}^{{{i}}} a_k^2" for i in range(rng.randint(1, 60))),
        fill(rng, PYTHON[0]),
        "=" * 40 + "\n" + paragraph(rng) + "\n" + "-" * 80,
    )
    return _text_case(kind, rng.choice(texts))


Make = Callable[[Random, str], Case]
KINDS: dict[str, Make] = {
    "prose": _prose,
    "markdown": _markdown,
    "table": _table,
    "log": _log,
    "wanted repetition": _repeats,
    "python": _python,
    "snippet": _snippet,
    "other code": _other_code,
    "nested fences": _nested_fences,
    "json fence": _json_fence,
    "nearly json": _json_like,
    "wanted json": _wanted_json,
    "diff": _diff,
    "edits": _edits,
    "call": _call,
    "parallel calls": _parallel_calls,
    "named call": _named_call,
    "bare call": _bare_call,
    "agent turn": _agent_turn,
    "about templates": _about_templates,
    "lost letters": _lost_letters,
    "small budget": _small_budget,
    "stop string": _stop_string,
    "prefilled": _prefilled,
    "thinking": _thinking,
    "refusal": _refusal,
    "short": _short,
    "document": _raw_document,
}
