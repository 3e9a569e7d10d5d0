"""What Anthropic's API refuses between turns: calls without results, results without calls, thinking of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from stoker_lab.testing.dialects.rich_messages import SIGNATURE, minted
from stoker_lab.testing.strict.rules import StrictRequest, StrictTurn

_NONE = StrictTurn(-1, "", [])
_BY_TEXT = re.compile(re.escape(SIGNATURE) + "[0-9a-f]{16}")
_THINKING = ("thinking", "redacted_thinking")


def ids_are_unique(asked: StrictRequest) -> Iterator[str]:
    ids = [block["id"] for turn in asked.turns for block in turn.of("tool_use")]
    if len(set(ids)) < len(ids):
        yield "messages: `tool_use` ids must be unique"


def calls_are_answered(asked: StrictRequest) -> Iterator[str]:
    """Results have to be in the next turn, which is the user's."""
    for turn, following in pairwise([*asked.turns, _NONE]):
        answered = {block["tool_use_id"] for block in following.of("tool_result")}
        if missing := [block["id"] for block in turn.of("tool_use") if block["id"] not in answered]:
            yield (
                f"messages.{turn.at}: `tool_use` ids were found without `tool_result` blocks immediately after:"
                f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the"
                " next message."
            )


def results_have_calls(asked: StrictRequest) -> Iterator[str]:
    for before, turn in pairwise([_NONE, *asked.turns]):
        calls = {block["id"] for block in before.of("tool_use")}
        seen: set[str] = set()
        for at, block in enumerate(turn.blocks):
            if block["type"] != "tool_result":
                continue
            name = block["tool_use_id"]
            if name not in calls:
                yield (
                    f"messages.{turn.at}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {name}."
                    " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if name in seen:
                yield f"messages.{turn.at}: each tool_use must have a single result. Found multiple for {name}"
            seen.add(name)


def results_come_first(asked: StrictRequest) -> Iterator[str]:
    for turn in asked.turns:
        for at, (before, block) in enumerate(pairwise(turn.blocks), 1):
            if block["type"] == "tool_result" and before["type"] != "tool_result":
                yield f"messages.{turn.at}.content.{at}: `tool_result` blocks must come first in the content"


def signatures_are_ours(asked: StrictRequest) -> Iterator[str]:
    """A signature that was made from a text must fit that text: a block has to come back unchanged."""
    for turn in asked.turns:
        for at, block in enumerate(turn.blocks):
            if block["type"] == "thinking":
                sign = str(block["signature"])
                is_other = _BY_TEXT.fullmatch(sign) and sign != minted(str(block["thinking"]))
                if is_other or not sign.startswith(SIGNATURE):
                    yield f"messages.{turn.at}.content.{at}: Invalid `signature` in `thinking` block"


def last_text_ends(asked: StrictRequest) -> Iterator[str]:
    last = asked.turns[-1]
    if last.role == "assistant" and last.blocks and last.blocks[-1]["type"] == "text":
        text = str(last.blocks[-1]["text"])
        if text != text.rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def starts_with_thinking(asked: StrictRequest) -> Iterator[str]:
    """Thinking of the turn whose calls are being answered, if thinking is enabled with a budget."""
    last = next((turn for turn in reversed(asked.turns) if turn.role == "assistant"), _NONE)
    if last.of("tool_use") and last.blocks[0]["type"] not in _THINKING:
        yield (
            f"messages.{last.at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{last.blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a"
            " thinking block."
        )
