"""Embeddings and rerank. Answers follow from the text alone, so that a test can recognise mixed-up replies."""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from typing import Any

import orjson

from stoker_lab.testing.dialects.chat import OpenAI
from stoker_lab.testing.dialects.reply_facts import ReplyFacts
from stoker_lab.testing.script.ask import ScriptedRequest, text_of


class Embeddings(OpenAI):
    """`/v1/embeddings`, as floats or (`encoding_format: base64`) packed."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        given = ask.document.get("input")
        inputs = given if isinstance(given, list) and not (given and isinstance(given[0], int)) else [given]
        packed = ask.document.get("encoding_format") == "base64"
        found = [
            {"object": "embedding", "index": at, "embedding": _pack(vector) if packed else vector}
            for at, vector in enumerate(embedding(one, facts.dimensions) for one in inputs)
        ]
        usage = {"usage": {"prompt_tokens": facts.prompt, "total_tokens": facts.prompt}} if facts.usage else {}
        return {"object": "list", "model": facts.model, "data": found} | usage


class Rerank(OpenAI):
    """`/v1/rerank`: the score is the part of the query's words that the document has."""

    def whole(self, ask: ScriptedRequest, facts: ReplyFacts) -> dict[str, Any]:
        query = set(text_of(ask.document.get("query")).split())
        documents = ask.document.get("documents") or []
        scores = [len(query & set(text_of(one).split())) / max(1, len(query)) for one in documents]
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))[: ask.document.get("top_n")]
        results = [{"index": at, "relevance_score": scores[at]} for at in order]
        usage = {"usage": {"prompt_tokens": facts.prompt, "total_tokens": facts.prompt}} if facts.usage else {}
        return {"object": "list", "model": facts.model, "results": results} | usage


def embedding(text: object, dimensions: int) -> list[float]:
    """A vector of length 1 that follows from the input alone. Texts that share words are near each other; each text
    has its own. Numbers are exact in 32-bit floats."""
    whole = orjson.dumps(text)
    words = text.lower().split() if isinstance(text, str) else []
    vectors = [(_hashed(word.encode(), dimensions), 1.0) for word in words]
    vectors.append((_hashed(whole, dimensions), 0.1))
    total = [sum(vector[at] * weight for vector, weight in vectors) for at in range(dimensions)]
    length = math.hypot(*total) or 1.0
    return list(struct.unpack(f"<{dimensions}f", struct.pack(f"<{dimensions}f", *(one / length for one in total))))


def _hashed(data: bytes, dimensions: int) -> list[float]:
    digest = hashlib.sha256(data).digest()
    return [(digest[at % len(digest)] - 127.5) / 127.5 for at in range(dimensions)]


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
