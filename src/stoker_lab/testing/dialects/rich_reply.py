"""A rich answer with the facts of its reply, as the three dialects render it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import orjson

from stoker_lab.testing.dialects.reply_facts import ReplyFacts
from stoker_lab.testing.script import assistant
from stoker_lab.testing.script.answers import (
    ScriptedAnswer,
    ScriptedBlock,
    ScriptedCall,
    ScriptedRedacted,
    ScriptedStop,
    ScriptedText,
    ScriptedThinking,
    choose_answer,
)
from stoker_lab.testing.script.ask import ScriptedRequest
from stoker_lab.testing.script.quirks import named
from stoker_lab.testing.script.script import Script


@dataclass(frozen=True, slots=True)
class RichReply:
    """`facts`: those of the answer, with its own usage instead of counted tokens."""

    facts: ReplyFacts
    blocks: tuple[ScriptedBlock, ...]
    stop: ScriptedStop
    sequence: str | None
    quirks: frozenset[str]
    cut: int
    words: Sequence[str] | None
    """The pieces of the only text, for replies of tokens with quirks."""
    written: int
    """Prompt tokens written to the cache."""
    reasoning: int
    """Completion tokens spent on thinking."""
    reasoning_field: str
    matched_field: str | None
    """The field in which the engine reports the stop sequence."""

    def pieces(self, text: str) -> Sequence[str]:
        """One per delta."""
        if self.words is not None:
            return self.words
        size = self.cut or len(text) or 1
        return [text[at : at + size] for at in range(0, len(text), size)]

    def id_of(self, prefix: str, at: int) -> str:
        """The id of the block at that index: the call's own, or one made from the number of the request."""
        block = self.blocks[at]
        given = block.id if isinstance(block, ScriptedCall) else None
        return given or f"{prefix}_{self.facts.number}_{at}"


_MATCHED = {"vllm": "stop_reason", "sglang": "matched_stop"}


def make_rich_reply(script: Script, ask: ScriptedRequest, facts: ReplyFacts) -> RichReply | None:
    """The rich answer; None if none is asked for, so that the reply has only tokens."""
    answer = choose_answer(cast("tuple[ScriptedAnswer, ...]", script.answers), ask.document)
    if answer is None and script.assistant:
        answer = assistant.answer(ask, script.thinks)
    if facts.text is None or (answer is None and not script.quirks):
        return None
    words = list(facts.words()) if answer is None else None
    if answer is None:
        answer = ScriptedAnswer(blocks=(ScriptedText(facts.whole()),), stop="length" if facts.is_cut else "end")
    given = answer.usage
    rich = RichReply(
        facts=facts,
        blocks=answer.blocks,
        stop=answer.stop or ("calls" if any(isinstance(one, ScriptedCall) for one in answer.blocks) else "end"),
        sequence=answer.sequence,
        quirks=frozenset((*named(script.quirks), *answer.quirks)),
        cut=answer.cut,
        words=words,
        written=given.written or 0,
        reasoning=0,
        reasoning_field=script.reasoning_field,
        matched_field=_MATCHED.get(script.engine),
    )
    thought = sum(len(rich.pieces(one.text)) for one in answer.blocks if isinstance(one, ScriptedThinking))
    sent = sum(len(rich.pieces(text_in(one))) for one in answer.blocks)
    output = sent if script.completion_tokens is None else script.completion_tokens
    facts = replace(
        facts,
        prompt=facts.prompt if given.input is None else given.input,
        cached=facts.cached if given.cached is None else given.cached,
        completion=output if given.output is None else given.output,
    )
    return replace(rich, facts=facts, reasoning=thought if given.reasoning is None else given.reasoning)


def text_in(block: ScriptedBlock) -> str:
    """The text that is cut into deltas."""
    match block:
        case ScriptedCall():
            return str(block.arguments)
        case ScriptedRedacted():
            return ""
    return block.text


def is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
