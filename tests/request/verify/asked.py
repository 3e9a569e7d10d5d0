"""Requests and answers in short, for the tests of verification."""

from __future__ import annotations

from typing import Any

from stoker.domain.answer import Answer, Said, Stop
from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Call, Prompt, Raw, Role, Text, Tool, Turn
from stoker.request.verify.expect import Expectation
from stoker.request.verify.finding import Finding
from stoker.request.verify.verifier import whole

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


def answer(*blocks: Said | str, stop: Stop = Stop.END) -> Answer:
    return Answer("i", "m", [Text(block) if isinstance(block, str) else block for block in blocks], stop)


def call(arguments: str = '{"path":"a"}', name: str = "read", id: str = "c1", custom: bool = False) -> Call:
    return Call(id, name, arguments, custom)


def proofs(found: list[Finding]) -> list[str]:
    return [finding.check for finding in found if finding.certain]


def notes(found: list[Finding]) -> list[str]:
    return [finding.check for finding in found if not finding.certain]


def proved(*blocks: Said | str, stop: Stop = Stop.END, **settings: Any) -> list[str]:
    """The checks that prove this answer to this request wrong."""
    return proofs(whole(expected(**settings), answer(*blocks, stop=stop)))


def noted(*blocks: Said | str, stop: Stop = Stop.END, **settings: Any) -> list[str]:
    return notes(whole(expected(**settings), answer(*blocks, stop=stop)))
