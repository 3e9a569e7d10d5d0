"""The prompt in a request's body, as a chain of hashes. Pure.

Blocks are the tools, the instructions and the messages, in this order, and long ones are cut: engines cache by prefix,
so what counts is where two prompts differ first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from stoker.domain.prompt_chain import PromptChain

BLOCK = 4096
"""Most bytes of a block."""
FIRST_BLOCKS = 64
LAST_BLOCKS = 448
"""Of a longer prompt, only the hashes of so many first and last blocks are in the chain. The first ones are what
conversations share, the last ones where a conversation went on.
"""
_CACHE_MARK = re.compile(rb'\s*,\s*"cache_control"\s*:\s*(?:\{[^{}]*\}|null)')
"""A client that marks the end of the cached part moves the mark with every request."""


class _Body(msgspec.Struct):
    tools: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()


_body = msgspec.json.Decoder(_Body).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def prompt_chain(key: str, body: bytes) -> PromptChain | None:
    """The chain of the prompt in `body`, in any dialect; None: there is none. Linear in the body.

    `key`: the name of the caller's key. It is part of each hash, so that nobody learns from the time of an answer what
    others have asked. The hashes are Python's own, whose secret is new in each process.
    """
    try:
        found = _body(body)
        elements = [found.tools, found.system, found.instructions]
        elements += [*_list(found.messages), *_list(found.input), *_list(found.prompt)]
    except msgspec.MsgspecError:
        return None
    hashes: list[int] = []
    ends: list[int] = []
    before, end = hash(key), 0
    for block in _blocks(elements):
        before = hash((before, block))
        end += len(block)
        hashes.append(before)
        ends.append(end)
    if not hashes:
        return None
    return PromptChain(_bounded(hashes), _bounded(ends))


def _list(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The elements of a list; anything else is one element."""
    return _items(raw) if bytes(memoryview(raw)[:1]) == b"[" else [raw]


def _blocks(elements: list[msgspec.Raw]) -> Iterator[bytes]:
    for element in elements:
        text = bytes(element)
        if b'"cache_control"' in text:
            text = _CACHE_MARK.sub(b"", text)
        for start, end in pairwise([*range(0, len(text), BLOCK), len(text)]):
            yield text[start:end]


def _bounded(values: list[int]) -> tuple[int, ...]:
    if len(values) <= FIRST_BLOCKS + LAST_BLOCKS:
        return tuple(values)
    return (*values[:FIRST_BLOCKS], *values[-LAST_BLOCKS:])
