"""What Anthropic and OpenAI refuse for one of their models, put right in a request that otherwise passes through.

What each model takes is in `neutral/model_families.py`. The writers of prompts follow the same rules.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import Raw, encode, loose
from stoker.request.translate.neutral.model_families import SAMPLING, nearest_effort
from stoker.request.translate.neutral.model_families import takes_sampling as gpt_takes_sampling
from stoker.request.translate.neutral.thinking import budget_of, effort_for

Fields = dict[str, Raw]
_THINKING = ("thinking", "redacted_thinking")
_CLEARS = "clear_thinking_"
LEAST_BUDGET = 1024
"""Anthropic's."""


# -- Anthropic ----------------------------------------------------------------------------------------------------


def lacks_thinking(thinking: Any, messages: Any) -> bool:
    """Whether a request with a budget goes on with a turn of calls that does not begin with thinking: 400 there.

    Only the turn counts whose results come last: a user's words end it.
    """
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or not isinstance(messages, list):
        return False
    if len(messages) < 2 or not _holds(messages[-1], "tool_result"):
        return False
    asked = messages[-2]
    return _holds(asked, "tool_use") and asked["content"][0].get("type") not in _THINKING


def _holds(message: Any, kind: str) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) and all(isinstance(block, dict) for block in content) else []
    return any(block.get("type") == kind for block in blocks)


def ends_in_blanks(messages: list[Any]) -> bool:
    """Whether a begun answer ends in blanks, which Anthropic refuses."""
    text = _last_text(messages)
    return text is not None and text != text.rstrip()


def without_last_blanks(messages: list[Any]) -> None:
    """A begun answer that ends with a letter, in place. It holds some, since blank text was left out before."""
    last = messages[-1]
    if isinstance(last["content"], str):
        last["content"] = last["content"].rstrip()
    else:
        last["content"][-1] = {**last["content"][-1], "text": last["content"][-1]["text"].rstrip()}


def _last_text(messages: list[Any]) -> str | None:
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return None
    content = last.get("content")
    if isinstance(content, list) and content and isinstance(content[-1], dict) and content[-1].get("type") == "text":
        content = content[-1].get("text")
    return content if isinstance(content, str) else None


def thinking_instead(traits: Capabilities) -> dict[str, Any]:
    """For a turn that lacks its thinking."""
    return {"type": "adaptive" if traits.is_known and traits.adaptive else traits.thinking_off or "adaptive"}


def takes_sampling(traits: Capabilities, thinking: Any) -> bool:
    """Whether it takes temperature, top_p and top_k beside this `thinking`."""
    thinks = isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
    return traits.sampling and not (thinks and traits.checks_signatures)


def apply_claude_rules(fields: Fields, traits: Capabilities, losses: Losses) -> None:
    """1. thinking as the model takes it  2. an effort that it has  3. a turn of calls that lacks its thinking
    4. no sampling where the model takes none  5. no higher limit than it has
    """
    limit = loose(fields["max_tokens"]) if "max_tokens" in fields else 0
    limit = limit if type(limit) is int else 0
    if traits.most_output and limit > traits.most_output:
        losses.add("max_tokens")  # 5
        limit = traits.most_output
        fields["max_tokens"] = Raw(encode(limit))
    given = loose(fields["thinking"]) if "thinking" in fields else None
    output = loose(fields["output_config"]) if "output_config" in fields else None
    output = output if isinstance(output, dict) else {}
    thinking, effort = _thinking(given, output.get("effort"), limit, traits, losses)
    is_budgeted = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if is_budgeted and lacks_thinking(thinking, loose(fields["messages"]) if "messages" in fields else None):
        losses.add("thinking_turn")  # 3
        thinking = thinking_instead(traits)
    if thinking != given:
        _put(fields, "thinking", thinking)
        if thinking is None or thinking["type"] == "disabled":
            _keep_cleared_thinking(fields)
    if effort != output.get("effort"):
        changed = {**output, "effort": effort}
        if effort is None:
            del changed["effort"]
        _put(fields, "output_config", changed or None)
    if traits.is_known and not traits.sampling:
        for name in ("temperature", "top_p", "top_k"):
            if name in fields:
                losses.add(name)  # 4
                del fields[name]


def _thinking(
    given: Any, effort: Any, limit: int, traits: Capabilities, losses: Losses
) -> tuple[dict[str, Any] | None, Any]:
    """`thinking` and the effort as the model takes them."""
    thinking = given
    given = given if isinstance(given, dict) else {}
    kind = given.get("type")
    if kind == "enabled" and not traits.budget:
        budget = given.get("budget_tokens")
        losses.add("budget" if traits.adaptive else "reasoning")
        thinking = {name: value for name, value in given.items() if name != "budget_tokens"} | {"type": "adaptive"}
        if not traits.adaptive:
            thinking = None
        elif effort is None and type(budget) is int:
            effort = effort_for(budget)
    elif kind == "adaptive" and not traits.adaptive:
        budget = min(budget_of(effort if isinstance(effort, str) else "high"), limit // 2 or LEAST_BUDGET)
        losses.add("reasoning")
        thinking = None
        if traits.budget and (limit > LEAST_BUDGET or not limit):
            thinking = {**given, "type": "enabled", "budget_tokens": max(budget, LEAST_BUDGET)}
    elif kind in ("disabled", "between_tools") and kind != traits.thinking_off and traits.is_known:
        losses.add("reasoning")
        thinking = {"type": traits.thinking_off} if traits.thinking_off else None
    if isinstance(effort, str) and nearest_effort(effort, traits.efforts) != effort:
        losses.add("effort")
        effort = nearest_effort(effort, traits.efforts)
    return thinking, effort


def _keep_cleared_thinking(fields: Fields) -> None:
    """A request that does not think must not ask for thinking to be cleared."""
    given = loose(fields["context_management"]) if "context_management" in fields else {}
    given = given if isinstance(given, dict) else {}
    edits = given.get("edits")
    if not isinstance(edits, list):
        return
    kept = [edit for edit in edits if not str(edit.get("type") if isinstance(edit, dict) else "").startswith(_CLEARS)]
    if len(kept) < len(edits):
        _put(fields, "context_management", {**given, "edits": kept} if kept else None)


# -- OpenAI -------------------------------------------------------------------------------------------------------


def apply_gpt_rules(fields: Fields, traits: Capabilities, losses: Losses) -> None:
    """1. an effort that the model has  2. no sampling where it takes none  3. the limit under the name that it takes"""
    is_chat = traits.dialect is Dialect.CHAT
    reasoning = loose(fields["reasoning"]) if "reasoning" in fields else {}
    reasoning = reasoning if isinstance(reasoning, dict) else {}
    effort = loose(fields["reasoning_effort"]) if is_chat and "reasoning_effort" in fields else None
    if not is_chat:
        effort = reasoning.get("effort")
    if isinstance(effort, str) and (changed := nearest_effort(effort, traits.efforts)) != effort:
        losses.add("effort")  # 1
        effort = changed
        if is_chat:
            _put(fields, "reasoning_effort", changed)
        else:
            kept = {name: value for name, value in reasoning.items() if name != "effort"}
            _put(fields, "reasoning", kept if changed is None else {**kept, "effort": changed})
    if not gpt_takes_sampling(traits.sampling_with, effort):
        for name in SAMPLING:
            if name in fields and loose(fields[name]) not in (None, False, 1):
                losses.add(name)  # 2
                del fields[name]
    if is_chat and traits.efforts and "max_tokens" in fields and "max_completion_tokens" not in fields:
        fields["max_completion_tokens"] = fields.pop("max_tokens")  # 3
        losses.repair("max_tokens")


def _put(fields: Fields, name: str, value: Any) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = Raw(encode(value))
