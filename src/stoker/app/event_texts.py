"""Events in words: what `/status` shows of them."""

from __future__ import annotations

from stoker.domain.events import AliasMoved, MoveCause
from stoker.domain.swap import SwapReport


def swap_seconds(report: SwapReport) -> float:
    """From the decision to the end. The check is left out: it overlaps the drain."""
    return sum(report.phases.get(phase, 0.0) for phase in ("drain", "stop", "start", "ready"))


def swap_text(report: SwapReport) -> str:
    if report.serve is None:
        return f"after {swap_seconds(report):.2f} s"
    if report.outcome == "failed":
        return report.error or ""
    how = "" if report.start_kind == "unknown" else f"{report.start_kind} "
    victims = f", {' and '.join(report.victims)} made room" if report.victims else ""
    return f"{how}start, {swap_seconds(report):.2f} s{victims}"


def move_text(move: AliasMoved) -> str:
    match move.cause:
        case MoveCause.PROMOTED:
            reason = f": {move.reason}" if move.reason else ""
            return f"alias {move.alias} points to it now; before, it pointed to {move.previous}{reason}"
        case MoveCause.RESET:
            return f"alias {move.alias} points to it again; before, it pointed to {move.previous}"
        case MoveCause.ROLLED_BACK:
            return f"alias {move.alias} points to it again: {move.previous} failed its {move.reason}"
        case MoveCause.ENDED:
            return f"alias {move.alias} points to it again: {move.previous} is no longer configured"
