"""Turns and tools, as the messages of any dialect become them, and are written again."""

from __future__ import annotations

from stoker.domain.prompt import Block, Prompt, Role, Text, Tool, ToolResult, Turn
from stoker.request.translate.neutral.capabilities import ERROR_PREFIX
from stoker.request.translate.neutral.gaps import Losses


def add_turn(turns: list[Turn], role: Role, blocks: list[Block]) -> None:
    """A run of one role is one turn; turns of the system stay apart."""
    if turns and turns[-1].role is role and role is not Role.SYSTEM:
        turns[-1].blocks += blocks
    else:
        turns.append(Turn(role, blocks))


def results_first(turns: list[Turn], losses: Losses) -> None:
    """Put the results of each turn before what else the user says: everybody wants them right behind their calls."""
    for turn in turns:
        results = [block for block in turn.blocks if isinstance(block, ToolResult)]
        if any(not isinstance(block, ToolResult) for block in turn.blocks[: len(results)]):
            losses.add("result_order")
            turn.blocks = [*results, *(block for block in turn.blocks if not isinstance(block, ToolResult))]


def error_text(content: list[Block]) -> str | None:
    """What stands behind the mark of an error at the beginning of a result; None: it is no error's."""
    first = content[0] if content else None
    if not isinstance(first, Text) or not first.text.startswith(ERROR_PREFIX):
        return None
    return first.text[len(ERROR_PREFIX) :]


def offered_tools(prompt: Prompt, losses: Losses, lists_allowed: bool) -> list[Tool]:
    """The tools to write. `lists_allowed`: the target takes a list of those that may be called; else the others are
    left out.
    """
    tools, choice = prompt.tools, prompt.tool_choice
    if choice is not None and choice.allowed is not None and not lists_allowed:
        losses.add("allowed_tools")
        allowed = frozenset(choice.allowed)
        tools = [tool for tool in tools if tool.name in allowed]
    if not tools and prompt.parallel_calls is not None:
        losses.add("parallel_calls")
    return tools


def note_custom(tool: Tool, losses: Losses) -> None:
    """A tool that takes any text becomes a function."""
    losses.add("custom_tool")
    if tool.grammar is not None:
        losses.add("grammar")
