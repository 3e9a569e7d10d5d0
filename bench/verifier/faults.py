"""One structural fault put into a clean answer. A fault that does not fit the answer gives None.

Faults are made by rough means (a character or a line is gone), not by what the verifier looks for. Code and JSON that
can still be read afterwards are no fault, and are not counted.
"""

from __future__ import annotations

import ast
import copy
import json
import re
import textwrap
from collections.abc import Callable
from random import Random
from typing import Any

from bench.verifier.clean import Case, cases, paragraph
from stoker.domain.answer import StopReason
from stoker.domain.prompt import Choice, Text, Thinking, ToolCall, ToolChoice

Fault = Callable[[Random, Case], Case | None]


def broken(seed: int, n: int) -> dict[str, list[Case]]:
    """`n` cases of each fault."""
    rng = Random(seed)
    found: dict[str, list[Case]] = {name: [] for name in FAULTS}
    batch = 0
    while any(len(made) < n for made in found.values()):
        batch += 1
        for case in cases(seed + batch, 2000):
            for name, (kinds, fault) in FAULTS.items():
                if case.kind in kinds and len(found[name]) < n:
                    made = fault(rng, copy.deepcopy(case))
                    if made is not None:
                        found[name].append(made)
    return found


def _on_call(change: Callable[[Random, Case, ToolCall], Any]) -> Fault:
    """A fault in one of the calls; the change gives False where it does not fit."""

    def fault(rng: Random, case: Case) -> Case | None:
        calls = [block for block in case.answer.blocks if isinstance(block, ToolCall) and not block.custom]
        return case if calls and change(rng, case, rng.choice(calls)) is not False else None

    return fault


def _on_value(change: Callable[[Random, dict[str, Any], dict[str, Any]], Any]) -> Fault:
    """A fault in the arguments: the change gets them and the schema."""

    def on(rng: Random, case: Case, call: ToolCall) -> bool:
        tool = next(tool for tool in case.prompt.tools if tool.name == call.name)
        schema, found = json.loads(bytes(tool.schema or b"{}")), json.loads(call.arguments)
        is_fit = change(rng, found, schema) is not False
        call.arguments = json.dumps(found)
        return is_fit

    return _on_call(on)


def _on_text(change: Callable[[Random, str], str | None]) -> Fault:
    def fault(rng: Random, case: Case) -> Case | None:
        for block in case.answer.blocks:
            if isinstance(block, Text):
                text = change(rng, block.text)
                if text is None or text == block.text:
                    return None
                block.text = text
                return case
        return None

    return fault


def _cut(rng: Random, case: Case, call: ToolCall) -> bool:
    if len(call.arguments) < 4:
        return False
    call.arguments = call.arguments[: rng.randint(1, len(call.arguments) - 2)]
    return True


def _rename(rng: Random, case: Case, call: ToolCall) -> None:
    call.name = rng.choice((call.name + "s", call.name.upper(), "", "functions." + call.name, "search_web"))


def _no_object(rng: Random, case: Case, call: ToolCall) -> None:
    text = call.arguments
    call.arguments = rng.choice(
        (f"[{text}]", json.dumps(text), "7", text + "}", "```json\n" + text + "\n```", "x" + text)
    )


def _miss_key(rng: Random, found: dict[str, Any], schema: dict[str, Any]) -> None:
    del found[rng.choice(schema["required"])]


def _wrong_type(rng: Random, found: dict[str, Any], schema: dict[str, Any]) -> bool:
    wrong = {"string": 7, "integer": "seven", "number": [], "boolean": "yes", "array": {}, "object": "x"}
    names = [name for name in found if schema["properties"][name].get("type") in wrong]
    if not names:
        return False
    name = rng.choice(names)
    found[name] = wrong[schema["properties"][name]["type"]]
    return True


def _outside_enum(rng: Random, found: dict[str, Any], schema: dict[str, Any]) -> bool:
    names = [name for name in found if "enum" in schema["properties"][name]]
    if names:
        found[rng.choice(names)] = "something else"
    return bool(names)


def _extra_key(rng: Random, found: dict[str, Any], schema: dict[str, Any]) -> bool:
    found["explanation"] = "because"
    return schema.get("additionalProperties") is False


def _same_id(rng: Random, case: Case) -> Case | None:
    calls = [block for block in case.answer.blocks if isinstance(block, ToolCall)]
    calls[1].id = calls[0].id
    return case


def _choose(mode: Choice) -> Fault:
    def fault(rng: Random, case: Case) -> Case | None:
        case.prompt.tool_choice = ToolChoice(mode)
        return case

    return fault


def _other_tool(rng: Random, case: Case) -> Case | None:
    case.prompt.tool_choice = ToolChoice(Choice.NAMED, "another")
    return case


def _one_at_a_time(rng: Random, case: Case) -> Case | None:
    case.prompt.parallel_calls = False
    return case


def _call_as_text(rng: Random, case: Case) -> Case | None:
    text = '<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>'
    case.answer.blocks = [Text(rng.choice((text, f"{paragraph(rng)}\n{text}")))]
    return case


def _silence(rng: Random, case: Case) -> Case | None:
    case.answer.blocks = [] if rng.random() < 0.5 else [Text("\n\n")]
    return case


def _only_thought(rng: Random, case: Case) -> Case | None:
    case.answer.blocks = [Thinking("Let me see.")]
    return case


def _loop(unit: Callable[[Random], str]) -> Fault:
    """It ran into the limit: a model in a loop does not stop by itself."""

    def fault(rng: Random, case: Case) -> Case | None:
        case.answer.blocks = [Text(paragraph(rng) + "\n" + (unit(rng) * 400)[: rng.randint(2500, 6000)])]
        case.answer.stop = StopReason.LENGTH
        return case

    return fault


def _cut_off(rng: Random, case: Case) -> Case | None:
    for block in case.answer.blocks:
        if isinstance(block, Text) and len(block.text) > 40:
            ends = [found.end() - 1 for found in re.finditer(r"\w{3,}", block.text)]
            if not ends:
                return None
            block.text = block.text[: rng.choice(ends)]
            case.answer.stop = rng.choice((StopReason.LENGTH, StopReason.CONTEXT))
            return case
    return None


def _without(pattern: str, reads: Callable[[str], object] | None = None) -> Callable[[Random, str], str | None]:
    """One of the matches is gone, within the first block of code. What `reads` still reads is no fault."""

    def change(rng: Random, text: str) -> str | None:
        block = re.search(r"(?s)(?:```|~~~)[a-z]+[^\n]*\n(.*?)(?:```|~~~)", text)
        matches = list(re.finditer(pattern, block[1], re.MULTILINE)) if block is not None else []
        if block is None or not matches:
            return None
        found = rng.choice(matches)
        start, end = block.start(1) + found.start(), block.start(1) + found.end()
        if reads is not None and _is_read(reads, block[1][: found.start()] + block[1][found.end() :]):
            return None
        return text[:start] + text[end:]

    return change


def _is_read(reads: Callable[[str], object], text: str) -> bool:
    try:
        reads(textwrap.dedent(text))
    except (ValueError, SyntaxError):
        return False
    return True


def _added_line(rng: Random, text: str) -> str | None:
    at = [found.end() for found in re.finditer(r"^[+-](?![+-]).*\n", text, re.MULTILINE)]
    if not at:
        return None
    where = rng.choice(at)
    return text[:where] + "+one = more\n" + text[where:]


def _unfenced(rng: Random, text: str) -> str | None:
    """The last fence is gone: the block never ends."""
    at = text.rfind("```")
    return text[:at] if at > 0 else None


def _marker(*markers: str) -> Callable[[Random, str], str | None]:
    def change(rng: Random, text: str) -> str | None:
        return text.rstrip() + rng.choice(("", " ", "\n")) + rng.choice(markers)

    return change


def _thought_aloud(rng: Random, text: str) -> str:
    return rng.choice((f"<think>\nHm.\n</think>\n\n{text}", f"Hm, let me see.\n</think>\n\n{text}"))


def _lost(rng: Random, text: str) -> str | None:
    places = [at for at, letter in enumerate(text) if ord(letter) > 127]
    if not places:
        return None
    at = rng.choice(places)
    return text[:at] + "\ufffd" + text[at + 1 :]


def _broken_json(rng: Random, text: str) -> str | None:
    text = text.strip()
    return rng.choice((
        text[: rng.randint(1, len(text) - 1)],
        f"```json\n{text}\n```",
        f"Here is the JSON:\n{text}",
        text.replace('"', "'"),
        text + "\n\nI hope that helps!",
    ))  # fmt: skip


def _emptied_json(rng: Random, case: Case) -> Case | None:
    """The schema wants keys, and there are none."""
    if case.prompt.format is None or case.prompt.format.schema is None:
        return None
    case.answer.blocks = [Text("{}")]
    return case


_CALLS = ("call", "parallel calls", "named call")
_TEXTS = ("prose", "markdown")
FAULTS: dict[str, tuple[tuple[str, ...], Fault]] = {
    "tool that was not offered": (_CALLS, _on_call(_rename)),
    "arguments cut off": (_CALLS, _on_call(_cut)),
    "arguments that are no object": (_CALLS, _on_call(_no_object)),
    "required key missing": (_CALLS, _on_value(_miss_key)),
    "argument of a wrong type": (_CALLS, _on_value(_wrong_type)),
    "argument outside of its enum": (_CALLS, _on_value(_outside_enum)),
    "key that the schema forbids": (_CALLS, _on_value(_extra_key)),
    "two calls with one id": (("parallel calls",), _same_id),
    "call where none is allowed": (_CALLS, _choose(Choice.NONE)),
    "no call where one is demanded": (_TEXTS, _choose(Choice.REQUIRED)),
    "another tool than the named one": (_CALLS, _other_tool),
    "several calls where one is allowed": (("parallel calls",), _one_at_a_time),
    "call written as text": (_CALLS, _call_as_text),
    "nothing said": (_TEXTS, _silence),
    "only thinking": (_TEXTS, _only_thought),
    "thinking in the text": (_TEXTS, _on_text(_thought_aloud)),
    "end marker in the text": (_TEXTS, _on_text(_marker("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<end_of_turn>"))),
    "turn marker in the text": (_TEXTS, _on_text(_marker("[INST] Hello", "<|im_start|>user", "<|user|>"))),
    "letter lost": (_TEXTS, _on_text(_lost)),
    "loop of some words": (_TEXTS, _loop(lambda rng: " ".join(paragraph(rng).split()[: rng.randint(1, 10)]) + " ")),
    "loop of a paragraph": (_TEXTS, _loop(lambda rng: paragraph(rng, least=2, most=5) + "\n\n")),
    "cut off in a word": ((*_TEXTS, "python"), _cut_off),
    "fence never closed": (("python", "json fence", "diff"), _on_text(_unfenced)),
    "Python without a bracket": (("python",), _on_text(_without(r"[()\[\]{}]", ast.parse))),
    "Python without a quote": (("python",), _on_text(_without(r"[\"'](?=[^\"'\n]*[\"'])", ast.parse))),
    "fenced JSON without a bracket": (("json fence",), _on_text(_without(r"[\[\]{}]", json.loads))),
    "fenced JSON without a quote": (("json fence",), _on_text(_without(r'(?<!\\)"', json.loads))),
    "diff without a line": (("diff",), _on_text(_without(r"^[ +-](?![+-]{2} ).*\n"))),
    "diff with a line too many": (("diff",), _on_text(_added_line)),
    "search block without a divider": (("edits",), _on_text(_without(r"^=======\n"))),
    "search block without an end": (("edits",), _on_text(_without(r"^>>>>>>> REPLACE\n"))),
    "wanted JSON broken": (("wanted json",), _on_text(_broken_json)),
    "wanted JSON without its keys": (("wanted json",), _emptied_json),
}
"""Which clean kinds it goes into, and how."""
