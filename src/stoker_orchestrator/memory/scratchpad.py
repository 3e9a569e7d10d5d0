"""The scratchpad of one request: what was decided, written, found and committed, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stoker.domain.errors import StokerError
from stoker_orchestrator.loop.blocks import LayerResult, WorkerBlock
from stoker_orchestrator.memory import records


class RunHead(msgspec.Struct, frozen=True):
    """What was decided before the first block. Holds no prompt."""

    request: str
    orchestrator: str
    worker: str
    validator: str = ""
    policy: str = ""
    task: str = ""
    """The class of the request."""
    at: float = 0.0
    """Unix time."""
    prompt_hash: str = ""
    """SHA-256 of what was asked, to recognise the same request."""
    idempotency: str = ""
    """SHA-256 of the key's name and the client's idempotency key; empty: it sent none."""
    key: str = ""
    """The name of the client's key."""
    resumes: str = ""
    """The request whose blocks this one goes on after."""


class SavedRun(msgspec.Struct, frozen=True):
    """A scratchpad as it was read."""

    head: RunHead
    committed: tuple[WorkerBlock, ...] = ()
    outcome: str = ""
    """`finished`, or an error's code; empty: it is under way, or was cut off."""
    text: str = ""
    """The whole page, for people."""


class Scratchpad:
    """Appends to one file. Everything blocks and raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.directory = path.parent

    def begin(self, head: RunHead) -> None:
        lines = [f"# Request {head.request}", ""]
        facts = msgspec.to_builtins(head)
        shown = {"orchestrator", "worker", "validator", "policy", "task", "resumes"}
        lines += [f"- {name}: {facts[name]}" for name in facts if name in shown and facts[name]]
        records.append(self._path, {"kind": "head", **facts}, "\n".join([*lines, "", ""]))

    def add_block(self, number: int, attempt: int, block: WorkerBlock) -> None:
        """What the worker wrote."""
        title = f"## Block {number}" + (f", written again ({attempt})" if attempt > 1 else "")
        text = f"{title}\n\n{shown_block(block)}\n"
        records.append(self._path, {"kind": "block", "number": number, "attempt": attempt}, text, is_synced=False)

    def add_check(self, number: int, attempt: int, result: LayerResult) -> None:
        """What one layer found."""
        outcome = "passed" if result.passed else "failed" if result.is_decided else "could not be read"
        reason = f": {result.reason}" if result.reason else ""
        text = f"- {result.layer.value} {outcome}{reason}\n"
        if not result.passed and result.correction and result.correction != result.reason:
            text += f"  - correction: {result.correction}\n"
        facts = {"kind": "check", "number": number, "attempt": attempt, "layer": result.layer.value}
        records.append(self._path, {**facts, "passed": result.passed}, text, is_synced=False)

    def commit(self, number: int, block: WorkerBlock) -> None:
        """The block is part of the answer from here on."""
        facts = {"kind": "commit", "number": number, "block": msgspec.to_builtins(block)}
        records.append(self._path, facts, f"- committed{f' to {block.path}' if block.path else ''}\n\n")

    def end(self, error: StokerError | None) -> None:
        """Finished, or given up."""
        outcome = "finished" if error is None else error.code
        text = "Finished.\n" if error is None else f"Ended: {error.message}\n"
        records.append(self._path, {"kind": "end", "outcome": outcome}, text)


def read_scratchpad(path: Path) -> SavedRun:
    """The run that a file tells of. Raises OSError, and ValueError if it is no scratchpad."""
    head: RunHead | None = None
    committed: list[WorkerBlock] = []
    outcome = ""
    texts = []
    for facts, text in records.read(path):
        texts.append(text)
        try:
            head, outcome = _take(facts, head, committed, outcome)
        except (msgspec.ValidationError, KeyError) as error:
            raise ValueError(f"{path} is not a scratchpad: {error}") from error
    if head is None:
        raise ValueError(f"{path} is not a scratchpad: it has no head")
    return SavedRun(head, tuple(committed), outcome, "".join(texts))


def _take(
    facts: dict[str, Any], head: RunHead | None, committed: list[WorkerBlock], outcome: str
) -> tuple[RunHead | None, str]:
    match facts.get("kind"):
        case "head":
            return msgspec.convert({name: value for name, value in facts.items() if name != "kind"}, RunHead), outcome
        case "commit":
            committed.append(msgspec.convert(facts["block"], WorkerBlock))
        case "end":
            return head, str(facts["outcome"])
    return head, outcome


def shown_block(block: WorkerBlock) -> str:
    """A block in Markdown, in a fence that nothing in it can end."""
    if not block.is_code:
        return "".join(f"> {line}\n" for line in block.text.splitlines())
    fence = "```"
    while fence in block.text:
        fence += "`"
    return f"{fence}{block.fence or block.language}\n{block.text}{fence}\n"
