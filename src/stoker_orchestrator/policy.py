"""How an orchestrator answers one request: block by block, or as its worker would.

1. the endpoint gives no text, or the client wants a form that blocks cannot have   -> simple
2. the request has tools: an agent has its own loop                                 -> simple
3. the caller chooses, by the header or the body's metadata                         -> its choice
4. the orchestrator's policy; `by-class`: block by block for classes that write code, else simple
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.errors import ClientError
from stoker.domain.prompt import Prompt, Text
from stoker_orchestrator.orchestrator import Policy

HEADER = "x-stoker-policy"
"""The request header by which a caller chooses the policy."""
METADATA = "stoker_policy"
"""The same in the body's `metadata`."""
NEW_CODE = "code-write"
CODE_CLASSES = frozenset((NEW_CODE, "code-edit", "multi-file-refactor"))


class ChosenPolicy(NamedTuple):
    policy: Policy
    """Never BY_CLASS, unless `needs_class`."""
    why: str
    """One word: `tools`, `format`, `caller`, `configured`, or the class."""

    @property
    def needs_class(self) -> bool:
        return self.policy is Policy.BY_CLASS


def choose(configured: Policy, prompt: Prompt, header: str | None) -> ChosenPolicy:
    """Rules 1 to 4, without the class. Raises ClientError 400 for a policy that is not known."""
    asked = asked_policy(prompt, header)
    if _unsuitable_form(prompt):
        return ChosenPolicy(Policy.SIMPLE, "format")
    if prompt.tools:
        return ChosenPolicy(Policy.SIMPLE, "tools")
    return ChosenPolicy(asked or configured, "configured" if asked is None else "caller")


def by_class(task: str) -> ChosenPolicy:
    """What `by-class` means for this class."""
    return ChosenPolicy(Policy.BLOCK_BY_BLOCK if task in CODE_CLASSES else Policy.SIMPLE, task)


def asked_policy(prompt: Prompt, header: str | None) -> Policy | None:
    """What the caller chooses; None: nothing. Raises ClientError 400 for a policy that is not known."""
    given = header
    if given is None:
        metadata = prompt.settings.get("metadata")
        given = metadata.get(METADATA) if isinstance(metadata, dict) else None
    if given is None:
        return None
    try:
        return Policy(str(given).strip().lower())
    except ValueError:
        known = ", ".join(policy.value for policy in Policy)
        text = f"there is no policy {str(given)[:40]!r}: {HEADER} is one of {known}"
        raise ClientError(text, code="unknown_policy", param=HEADER) from None


def _unsuitable_form(prompt: Prompt) -> bool:
    """A schema for the answer, several answers, or the beginning of an answer that has to be continued."""
    return (
        prompt.format is not None
        or prompt.continues
        or (prompt.settings.get("n") or 1) != 1
        or bool(prompt.settings.get("logprobs"))
    )


def conversation(prompt: Prompt) -> tuple[str, ...]:
    """All that was said so far, by anybody."""
    return tuple(block.text for turn in prompt.turns for block in turn.blocks if isinstance(block, Text))


def asks_for_new_code(task: str, prompt: Prompt) -> bool:
    """Whether the answer's code builds on none but what the conversation shows."""
    return task == NEW_CODE and all(isinstance(block, Text) for turn in prompt.turns for block in turn.blocks)


def task_text(prompt: Prompt) -> str:
    """What the person asked last, for the validator; at most its last 8,000 characters."""
    for turn in reversed(prompt.turns):
        text = "\n".join(block.text for block in turn.blocks if isinstance(block, Text))
        if turn.role.value == "user" and text.strip():
            return text[-8000:]
    return ""
