"""Compares the training renderer and tokenizer with llama.cpp's, on any model file (random weights will do).

`python -m training.parity --gguf spark.gguf --vocabulary DIR/vocabulary.json [--cases 200]`
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from training import data, mix, template, tokenizer
from training.serve import Served
from training.tasks import Draw, Message


def stringified(function: dict[str, Any]) -> dict[str, Any]:
    return {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}


def wire(messages: list[Message]) -> list[Message]:
    """Tool calls as clients send them: arguments as a string, an id on call and result."""
    sent = []
    for message in messages:
        message = dict(message)
        if message.get("tool_calls"):
            message["tool_calls"] = [
                {"id": f"call_{i}", "type": "function", "function": stringified(entry["function"])}
                for i, entry in enumerate(message["tool_calls"])
            ]
        if message["role"] == "tool":
            message["tool_call_id"] = "call_0"
        sent.append(message)
    return sent


def mismatches(served: Served, words: tokenizer.Tokenizer, me: str, cases: int) -> list[str]:
    draw = Draw(random.Random(4711), me, data.pieces(words))
    wrong = []
    for _ in range(cases):
        chat = mix.conversation(draw, long=False)
        messages = chat.messages[:-1]
        body = {"messages": wire(messages), "tools": [tool.schema() for tool in chat.tools]}
        if not chat.tools:
            del body["tools"]
        ours = template.prompt(messages, chat.tools)
        theirs = served.post("/apply-template", body)["prompt"]
        if ours != theirs:
            wrong.append(f"template\n{ours!r}\n{theirs!r}")
            continue
        asked = {"content": ours, "add_special": True, "parse_special": True}
        tokens = served.post("/tokenize", asked)["tokens"]
        if tokens != [tokenizer.BOS, *words.encode(ours)]:
            wrong.append(f"tokens\n{ours!r}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--model", default="ember")
    parser.add_argument("--cases", type=int, default=200)
    args = parser.parse_args()
    wrong = mismatches(Served(args.gguf), tokenizer.load(args.vocabulary), args.model, args.cases)
    print("\n".join(wrong[:5]))
    print(f"{args.cases - len(wrong)} of {args.cases} rendered and tokenized alike")


if __name__ == "__main__":
    main()
