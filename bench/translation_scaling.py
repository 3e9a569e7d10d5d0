"""What long answers cost to translate: `python -m bench.translation_scaling [--pieces N]`.

A tool argument in N fragments of 200 bytes, and in 2 N, through every pair of a serve's and a client's dialect: CPU
time of this process, the least of five. Linear work doubles; a copy that grows with each fragment shows here, and
nowhere in the counts of the tests. Fails above a factor of three.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.figures import table
from bench.translation_fuzz import CLIENTS, SERVES
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Role, Text, Turn
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, Written

SIZE = 200
"""Bytes of a fragment."""
MAX_RATIO = 3.0
"""How much more the double may take."""


def frames(upstream: str, pieces: int) -> list[bytes]:
    """A call with one long argument, as this serve streams it."""
    texts = ['{"x":"', *("y" * SIZE for _ in range(pieces)), '"}']
    item = {"id": "fc", "type": "function_call", "call_id": "a", "name": "f", "arguments": ""}
    began: list[Any]
    match upstream:
        case "chat":
            function = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
            began = [_chunk({"tool_calls": [function]})]
            told = [_chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in texts]
            ended = [_chunk({}, "tool_calls")]
        case "messages":
            block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
            began = [
                {"type": "message_start", "message": {"id": "i", "model": "m", "usage": {"input_tokens": 1}}},
                {"type": "content_block_start", "index": 0, "content_block": block},
            ]
            deltas = ({"type": "input_json_delta", "partial_json": text} for text in texts)
            told = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
            ended = [
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            ]
        case _:
            began = [
                {"type": "response.created", "response": {"id": "i", "model": "m"}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
            ]
            kind = "response.function_call_arguments.delta"
            told = [{"type": kind, "item_id": "fc", "output_index": 0, "delta": text} for text in texts]
            done = item | {"arguments": "".join(texts)}
            ended = [
                {"type": "response.output_item.done", "output_index": 0, "item": done},
                {"type": "response.completed", "response": {"id": "i", "status": "completed", "output": [done]}},
            ]
    return [b"data: %b\n\n" % msgspec.json.encode(event) for event in (*began, *told, *ended)]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "i", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def measure(upstream: str, client: str, pieces: int, times: int = 5) -> float:
    """Milliseconds of CPU."""
    prompt = Prompt(Dialect(client), "m", [Turn(Role.USER, [Text("u")])])
    given = frames(upstream, pieces)
    seen = []
    for _ in range(times):
        asked = AnswerContext(prompt, "req", 1, ThinkingSigner((b"key",)), "m")
        one = AnswerTranslator(Dialect(upstream), Written(prompt, b"", {}, Losses()), asked)
        began = time.process_time()
        for frame in given:
            one.feed(frame)
        one.has_ended()
        one.take_rest()
        seen.append((time.process_time() - began) * 1e3)
    return min(seen)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.translation_scaling", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pieces", type=int, default=5000)
    pieces = parser.parse_args(argv).pieces
    rows: list[list[str]] = []
    worst = 0.0
    for upstream in SERVES:
        for client in CLIENTS:
            one, two = measure(upstream, client, pieces), measure(upstream, client, 2 * pieces)
            worst = max(worst, two / one)
            rows.append([f"{upstream} -> {client}", f"{one:.1f}", f"{two:.1f}", f"{two / one:.2f}"])
    sys.stdout.write(table(["pair", f"{pieces} fragments, ms", f"{2 * pieces}, ms", "factor"], rows) + "\n")
    return 0 if worst < MAX_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
