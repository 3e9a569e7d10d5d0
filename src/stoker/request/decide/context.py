"""Does a request fit the serve's context?"""

from __future__ import annotations

from stoker.domain.errors import ContextExceeded

TEMPLATE_ALLOWANCE = 256
"""Tokens that a chat template may add around a short conversation."""


def may_exceed(context: int | None, body_bytes: int, output_budget: int | None) -> bool:
    """Whether the engine has to be asked. Tokens are never more than bytes, so most requests are plainly small."""
    if context is None:
        return False
    return body_bytes + TEMPLATE_ALLOWANCE + (output_budget or 1) > context


def check_context(owner: str, context: int, prompt: int, output_budget: int | None) -> int:
    """How many tokens the prompt leaves for the answer. Raises ContextExceeded if that is none. `owner`: how messages
    call who has the context.
    """
    if prompt < context:
        return context - prompt
    budget = max(output_budget or 1, 1)
    output = f"{budget} output" if output_budget else "at least 1 output"
    text = f"{prompt} prompt + {output} tokens exceed the context of {owner} ({context} tokens)"
    raise ContextExceeded(text, prompt=prompt, output=output_budget, context=context, param="messages")
