"""Requests and answers in short, for the tests of verification."""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import Answer, AnswerBlock, StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Prompt, Raw, Role, Text, Tool, ToolCall, Turn
from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import AnswerFinding
from stoker_content.verify.verifier import check_whole_answer

READ = Tool(
    "read",
    "Reads a file.",
    Raw(
        b'{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}},'
        b'"required":["path"],"additionalProperties":false}'
    ),
)


def expected(text: str = "Do it.", **settings: Any) -> Expectation:
    turns = settings.pop("turns", None) or [Turn(Role.USER, [Text(text)])]
    return Expectation(Prompt(Dialect.CHAT, "m", turns, **settings))


def answer(*blocks: AnswerBlock | str, stop: StopReason = StopReason.END) -> Answer:
    return Answer("i", "m", [Text(block) if isinstance(block, str) else block for block in blocks], stop)


def call(arguments: str = '{"path":"a"}', name: str = "read", id: str = "c1", custom: bool = False) -> ToolCall:
    return ToolCall(id, name, arguments, custom)


def proofs(found: list[AnswerFinding]) -> list[str]:
    return [finding.check for finding in found if finding.is_proved]


def notes(found: list[AnswerFinding]) -> list[str]:
    return [finding.check for finding in found if not finding.is_proved]


def proved(*blocks: AnswerBlock | str, stop: StopReason = StopReason.END, **settings: Any) -> list[str]:
    """The checks that prove this answer to this request wrong."""
    return proofs(check_whole_answer(expected(**settings), answer(*blocks, stop=stop)))


def noted(*blocks: AnswerBlock | str, stop: StopReason = StopReason.END, **settings: Any) -> list[str]:
    return notes(check_whole_answer(expected(**settings), answer(*blocks, stop=stop)))
