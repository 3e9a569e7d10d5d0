"""What a client needs: context for its own prompt, to work in and for the reply; efforts that its model takes. Pure."""

from __future__ import annotations

from stoker.request.translate.neutral.model_families import claude_family, gpt_family
from stoker_setup.clients.client_types import Client
from stoker_setup.clients.facts import ClientFacts, budgets

AGENT_CONTEXT = 32_768
"""Tokens from which on most coding agents work: their own prompts take 2,000 to 20,000 of them."""
_STEP = 4096


def needed_context(client: Client) -> int | None:
    """The smallest `context` of a serve with which the client can work. None: unknown.

    In steps of 4,096, the first whose recommended client context is twice the client's own prompt; if that was not
    measured, what its documentation asks for.
    """
    if client.own_prompt is None:
        return client.documented_context
    context = _STEP
    while (budgets(context)[0] or 0) < 2 * client.own_prompt:
        context += _STEP
    return context


def context_shortage(client: Client, facts: ClientFacts, trained: int | None = None) -> str | None:
    """A warning if the serve's context is below what the client needs.

    `trained`: tokens that its model was trained for; None: unknown.

    1. the model was not trained for so much  2. its context is the largest that fits  3. it can be set higher
    """
    needed = needed_context(client)
    if needed is None or facts.ceiling is None or facts.ceiling >= needed:
        return None
    who = "its tiers have" if facts.is_task else f"serve '{facts.serve.name}' has"
    why = "so says its documentation"
    if client.own_prompt is not None:
        why = f"it sends about {client.own_prompt} tokens of its own with each request"
    if trained is not None and trained < needed:
        advice = f"its model was trained for {trained}, so choose another serve with --model"  # 1
    elif facts.serve.auto_context:
        advice = "that is the largest that fits: lower `parallel`, or choose another serve with --model"  # 2
    else:
        fits = f"set `context = {needed}` if `stoker fit` says that it fits"
        advice = f"{fits}, or choose another serve with --model"  # 3
    return f"{client.title} needs a context of {needed} tokens ({why}), and {who} {facts.ceiling}: {advice}"


def effort_note(facts: ClientFacts) -> str | None:
    """Which efforts a vendor's model takes, since agents let their user choose one. None: any, or nobody knows."""
    serve = facts.serve
    name = serve.served_name or serve.name
    family = claude_family(name) or gpt_family(name) if serve.translation.cloud and not facts.is_task else None
    if family is None:
        return None
    if family.efforts:
        return (
            f"{name} takes the efforts {', '.join(family.efforts)}: Stoker asks for the nearest one instead of others"
        )
    if claude_family(name) is not None:
        return f"{name} takes no effort and no adaptive thinking: Stoker gives it a budget of thinking instead"
    return f"{name} does not think: an effort that the client asks for is left out"
