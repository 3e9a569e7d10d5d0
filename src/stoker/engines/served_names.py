"""Served names that an engine refuses, or that a client cannot have. Pure."""

from __future__ import annotations


def name_problem(engine: str, served_name: str) -> str | None:
    """Why the engine would refuse the name, with one to use instead; None if it would not."""
    if engine != "sglang" or ":" not in served_name:
        return None
    return (
        f"SGLang refuses the served name '{served_name[:64]}': it reads what follows the colon as an adapter; "
        f"write '{served_name[:64].replace(':', '-')}' and keep the old name in `aliases`"
    )


def name_caution(served_name: str) -> str | None:
    """Why some client cannot use the name; None if all can."""
    if "/" not in served_name:
        return None
    return (
        f"Claude Code cannot ask for '{served_name[:64]}', which has a slash: "
        f"add '{served_name[:64].rpartition('/')[2]}' to `aliases`"
    )
