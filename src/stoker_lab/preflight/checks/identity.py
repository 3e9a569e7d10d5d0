"""Is it the model that was asked for, with the context that was promised?"""

from __future__ import annotations

from collections.abc import Collection

from stoker.domain.serve import IDENTITY_NOT_PROVED
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    failed,
    not_applicable,
    passed,
)
from stoker_lab.requests.client import ModelClient


async def _model(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. healthy  2. the list has the exact id  3. the context is the promised one  4. answers bear its name
    5. the engine lists no models
    """
    facts = ctx.facts
    if facts.health not in (200, 404):  # 1: an engine without such a path is none the worse
        return failed("health", f"/health answers {facts.health or 'nothing'}")
    if facts.lists_models and facts.model not in facts.listed:  # 2
        shown = ", ".join(facts.listed[:4]) or "nothing"
        return failed("id", f"/v1/models shows {shown}, not '{facts.model}'")
    context = "unknown" if facts.context is None else f"{facts.context:,}"
    if facts.configured_context and facts.context and facts.context < facts.configured_context:  # 3
        text = f"its context is {facts.context:,} tokens, the configuration promises {facts.configured_context:,}"
        return failed("context", text, context=facts.context)
    if other := next((name for name in facts.reported_models if not is_same(name, facts.aliases)), None):  # 4
        return failed("other", f"'{facts.model}' was asked for, and answers say that they are from '{other}'")
    if not facts.lists_models:  # 5
        return not_applicable(IDENTITY_NOT_PROVED)
    return passed(f"'{facts.model}' is listed, context {context}", context=facts.context)


def is_same(name: str, aliases: Collection[str]) -> bool:
    """Whether a name is one of these, but for folders, endings, and a version behind it."""
    short = _plain(name)
    return any(short.startswith(own) or own.startswith(short) for own in map(_plain, aliases))


def _plain(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".gguf").strip()


IDENTITY = (
    PreflightCheck(
        "model",
        "health, exact id and context in /v1/models",
        "another model that bears the right name everywhere",
        _model,
        asks_chat=False,
    ),
)
