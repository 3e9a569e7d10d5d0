"""An interrupted preflight goes on: which of its findings still count.

| since then                                                              | its finished checks            |
|-------------------------------------------------------------------------|--------------------------------|
| it is another serve, address, model, template, engine or configuration  | are asked again                |
| other options, or another version of the checks                         | are asked again                |
| nothing of that                                                         | count; the others are asked    |

What is not known of a model, that of somebody else's server, counts as unchanged: `unknown_parts` names it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from stoker import __version__
from stoker.domain.run import Finding, Outcome, Run, Subject
from stoker_lab.artifacts.fingerprint import difference


class FlawsSeen(msgspec.Struct):
    """The raw part of a preflight: what its finished checks leave to a later one."""

    wire_flaws: list[tuple[str, str]] = []
    is_sampled: bool = False


def change_since(earlier: Run, subject: Subject, options: dict[str, Any]) -> str:
    """What changed since an interrupted run, so that nothing of it counts; empty: nothing did. `options`: as
    `recorded_options` gives them.
    """
    before = earlier.subject
    if (before.serve, before.model, before.route) != (subject.serve, subject.model, subject.route):
        return f"it asked {before.model} ({before.route})"
    if subject.route != "front-door" and before.base_url != subject.base_url:
        return f"it asked {before.base_url}"
    found = difference(before.fingerprint, subject.fingerprint)
    if changed := found.identity + found.execution:
        return "; ".join(changed)
    asked = earlier.setting("options")
    kept = asked if isinstance(asked, dict) else {}
    names = [name for name, value in options.items() if kept.get(name) != value]
    if names == ["checks"]:
        return "the checks are of another version"
    return f"other options: {', '.join(names)}" if names else ""


def unknown_parts(subject: Subject) -> list[str]:
    """Parts of the model's identity that cannot be compared."""
    return [one.partition(":")[0] for one in difference(subject.fingerprint, subject.fingerprint).unknown]


def finished(run: Run) -> dict[str, Finding]:
    """Its finished checks, by name."""
    return {one.name: one for one in run.findings if one.outcome is not Outcome.INTERRUPTED}


def flaws_in(run: Run) -> FlawsSeen:
    try:
        return msgspec.json.decode(run.raw, type=FlawsSeen)
    except msgspec.DecodeError:
        return FlawsSeen()


@cache
def checks_version() -> str:
    """Changes when the code of the checks does."""
    code = hashlib.sha256(__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        code.update(file.read_bytes())
    return code.hexdigest()[:16]
