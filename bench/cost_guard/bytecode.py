"""Python instructions per function, exact: the interpreter reports each one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import stoker

_STOKER = Path(stoker.__file__).parent


def count(work: Callable[[], object]) -> Counter[str]:
    """Instructions that `work` runs in this thread, by function of Stoker (`module:function`); others: `elsewhere`."""
    seen: Counter[CodeType] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            seen[frame.f_code] += 1
        elif event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, times in seen.items():
        named[_name(code)] += times
    return named


def _name(code: CodeType) -> str:
    path = Path(code.co_filename)
    if not path.is_relative_to(_STOKER):
        return "elsewhere"
    module = path.relative_to(_STOKER).with_suffix("")
    return f"{module.as_posix()}:{code.co_qualname}"
