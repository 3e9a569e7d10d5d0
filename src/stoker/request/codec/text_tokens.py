"""How many tokens a text has that nobody counted: an answer that broke off, or whose serve reports no usage. Pure.

A streamed piece is one token with most engines. Where pieces are longer, and for a text in one piece, its length
decides: `BYTES_PER_TOKEN`.
"""

from __future__ import annotations

from typing import Any, Final

from stoker.domain.dialect import Dialect
from stoker.domain.task import BYTES_PER_TOKEN

LONGEST_TOKEN: Final = 16
"""Bytes. Pieces that are longer on average hold several tokens."""
TOKENS_PER_FILE: Final = 1000
"""Of an image or another file within a prompt, whatever its size: about what the providers count for a picture."""
PIECES: Final = {
    Dialect.CHAT: b'"delta"', Dialect.COMPLETIONS: b'"text"', Dialect.MESSAGES: b'"content_block_delta"',
    Dialect.RESPONSES: b'.delta"',
}  # fmt: skip
"""What each streamed piece of an answer has once, and nothing else has."""
_TEXTS: Final = frozenset(
    ("text", "content", "reasoning_content", "reasoning", "thinking", "refusal", "arguments", "partial_json", "delta",
     "input")
)  # fmt: skip
"""The fields of answers, in any dialect, that hold what the model wrote."""
_WHOLE: Final = frozenset(("arguments", "input"))
"""Of them, those that may be objects, all of which the model wrote."""
_FILES: Final = (b";base64,", b'"data":"')
"""What precedes a file in a prompt."""


def tokens_of_pieces(pieces: int, size: int) -> int:
    """Tokens of a text that came in so many pieces. `size`: its bytes."""
    return size // BYTES_PER_TOKEN if size > LONGEST_TOKEN * pieces else pieces


def tokens_of_text(size: int) -> int:
    """Tokens of a text in one piece: at least one, if it has any byte."""
    return max(size // BYTES_PER_TOKEN, min(size, 1))


def text_size(value: Any) -> int:
    """Bytes of what the model wrote, in a frame or a whole answer of any dialect."""
    size = 0
    waiting: list[tuple[Any, bool, bool]] = [(value, False, False)]
    while waiting:
        found, is_text, is_whole = waiting.pop()
        if isinstance(found, str):
            if is_text:
                size += len(found.encode("utf-8", "replace"))
        elif isinstance(found, list):
            waiting += [(one, is_text, is_whole) for one in found]
        elif isinstance(found, dict):
            waiting += [(one, is_whole or name in _TEXTS, is_whole or name in _WHOLE) for name, one in found.items()]
    return size


def excess_of_files(body: bytes) -> int:
    """Bytes by which a request's body is larger than its prompt tells: those of files in it, but for TOKENS_PER_FILE
    each.
    """
    excess, counted = 0, TOKENS_PER_FILE * BYTES_PER_TOKEN
    for mark in _FILES:
        at = body.find(mark)
        while at >= 0:
            start = at + len(mark)
            end = body.find(b'"', start)
            if end < 0:
                break
            excess += max(0, end - start - counted)  # a small one is cheaper as text
            at = body.find(mark, end)
    return excess
