"""`stoker decisions --trace`: a trace for a benchmark."""

from __future__ import annotations

from stoker.cli.console import terminal
from stoker.domain.decision import Decision
from stoker.domain.figures import counted


def print_trace(found: list[Decision]) -> None:
    from stoker_lab.load.replay import export_trace

    lines, left_out = export_trace(found)
    for line in lines:
        terminal.say(line.decode())
    if left_out:
        terminal.note(f"left out: {left_out} of {counted(len(found), 'request')}, since their tokens were not counted")
