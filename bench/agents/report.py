"""The table of outcomes, and a transcript of each session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bench.agents import request_parts, task
from bench.agents.clients import Client
from bench.agents.serves import KINDS
from bench.agents.session import Outcome

_LINES = 40
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_SECRET = re.compile(r"KEY|TOKEN")


def table(outcomes: Sequence[Outcome], missing: Sequence[Client]) -> str:
    """One line per session."""
    lines = [
        "| client | serve | outcome | requests | s | thinking back | prompt not continued | lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        words = "complete" if not one.problems else "; ".join(one.problems).replace("|", "/")
        lost = ", ".join(one.lost) or "nothing"
        cells = (one.client, one.serve, words, len(one.steps), f"{one.seconds:.1f}", one.thinking, one.breaks, lost)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [f"| {one.name} | | not installed: `{one.install}` | | | | | |" for one in missing]
    return "\n".join(lines)


def transcript(outcome: Outcome) -> str:
    """A session as both ends saw it: Markdown."""
    kind = KINDS[outcome.serve]
    parts = [f"# {outcome.client} -> {kind.title}", *_settings(outcome)]
    parts += ["What it printed:", _block(_short(outcome.said))]
    parts += ["What was decided:", _block("\n".join(_decided(outcome)))]
    if outcome.documents:
        parts += [f"What the serve got at `{kind.path}`:", _block("\n".join(_got(outcome)))]
    parts += [f"Problems: {'; '.join(outcome.problems) or 'none'}."]
    return "\n\n".join(parts) + "\n"


def _settings(outcome: Outcome) -> list[str]:
    parts = []
    for path, text in outcome.setup.files.items():
        parts += [f"`{path}`:", _block(text.strip("\n"))]
    lines = [f"export {name}={value}" for name, value in outcome.setup.variables.items()]
    lines.append(" ".join(_quoted(word) for word in outcome.command))
    return [*parts, _block("\n".join(lines))]


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def _block(text: str) -> str:
    return "\n".join(("```", text, "```"))


def _short(text: str) -> str:
    lines = [_COLOUR.sub("", line).rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line][: 4 * _LINES]
    if len(lines) > _LINES:
        half = _LINES // 2
        lines = [*lines[:half], f"... {len(lines) - _LINES} lines ...", *lines[-half:]]
    return "\n".join(line if len(line) <= 160 else f"{line[:150]} ..." for line in lines)


def _decided(outcome: Outcome) -> list[str]:
    return [
        f"{one.endpoint}  {one.outcome} {one.status}  tokens {one.tokens[0]} in, {one.tokens[1]} out  "
        f"{one.translation or 'untouched'}"
        for one in outcome.steps
    ]


def _got(outcome: Outcome) -> list[str]:
    """The last request in full outline; of the ones before their size."""
    dialect = KINDS[outcome.serve].dialect
    lines = [f"request {at}: {_outline(one)}" for at, one in enumerate(outcome.documents, 1)]
    longest = max(outcome.documents, key=lambda one: len(request_parts.request_parts(dialect, one)))
    lines += ["", "the longest conversation:"]
    for one in request_parts.request_parts(dialect, longest):
        text = " ".join(one.text.split())
        text = text if len(text) <= 90 else f"{text[:80]} ..."
        extra = f" [{one.id}]" if one.id else f" (signed {one.signature[:20]}...)" if one.signature else ""
        lines.append(f"  {one.role:<9} {one.kind:<8} {text}{extra}")
    return lines


def _outline(document: dict[str, Any]) -> str:
    """A request's fields but its conversation, and its size."""
    fields = []
    for name, value in document.items():
        if name in ("messages", "input"):
            fields.append(f"{name}={1 if isinstance(value, str) else len(value)}")
        elif name in ("tools", "system"):
            fields.append(f"{name}={len(value) if isinstance(value, list) else 'text'}")
        elif isinstance(value, str | int | float | bool):
            fields.append(f"{name}={str(value)[:20]}")
        else:
            fields.append(name)
    return f"{request_parts.size(document) / 1000:.0f} kB: {' '.join(fields)}"


def document(outcome: Outcome) -> dict[str, Any]:
    """For `--json`: without what was said."""
    found = outcome._asdict()
    for name in ("documents", "setup", "said", "command"):
        del found[name]
    return {**found, "steps": [step._asdict() for step in outcome.steps], "lost": outcome.lost}


def headline() -> str:
    return f'The task: "{task.ASKED}"'
