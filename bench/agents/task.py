"""The task, and the answers of a model that does it. The words are looked for at both ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FILE = "greet.py"
WRONG, RIGHT = "Helo, ", "Hello, "
TEXT = f'''\
def greet(name):
    return f"{WRONG}{{name}}!"


if __name__ == "__main__":
    print(greet("Stoker"))
'''
TEST = """\
from greet import greet

assert greet("Stoker") == "Hello, Stoker!", greet("Stoker")
print("the test passed")
"""
FILES = {FILE: TEXT, "check.py": TEST}
ASKED = f"{FILE} has a typo: it should say Hello. Fix it, then run it."
WHO = "Who are you?"
I_AM = "I am spark, a tiny language model that tests Stoker."
"""What the real, tiny model says to that."""
RUN = f"python3 {FILE}"
PRINTED = "Hello, Stoker!"
THOUGHTS = ("I should look before I change anything.", "The greeting lacks an l.", "Now to see whether it runs.")
FINAL = "Done. greet.py says Hello, and it runs."
TITLE = "Typo in the greeting"
OLD, NEW = f'return f"{WRONG}{{name}}!"', f'return f"{RIGHT}{{name}}!"'
PATCH = f"""\
*** Begin Patch
*** Update File: {FILE}
@@
-    return f"{WRONG}{{name}}!"
+    return f"{RIGHT}{{name}}!"
*** End Patch
"""

Call = tuple[str, dict[str, Any]]
"""A tool's name and arguments."""
Answers = list[dict[str, Any]]


class Tools(NamedTuple):
    """The tools of a client: how it reads a file, puts NEW for OLD in it, and runs a command."""

    read: Callable[[Path], Call]
    edit: Callable[[Path], Call]
    run: Callable[[str], Call]


def answers(tools: Tools, work: Path, before: int = 0, sealed: bool = False) -> Answers:
    """Two calls at once, one, one more, and the end: each but the last with a thought. `before`: assistant turns that
    the client itself puts before the task; `sealed`: the thoughts come encrypted, as OpenAI's do."""
    file = work / FILE
    steps = [(tools.read(file), tools.run("ls")), (tools.edit(file),), (tools.run(RUN),)]
    found: Answers = [{"blocks": [{"type": "text", "text": "not asked for"}]} for _ in range(before)]
    for at, (calls, thought) in enumerate(zip(steps, THOUGHTS, strict=True)):
        blocks: list[dict[str, Any]] = [{"type": "thinking", "text": thought}]
        if sealed:
            blocks[0]["signature"] = f"gAAAAsealed{at}"
        if not at:
            blocks.append({"type": "text", "text": "I look at the file first."})
        for number, (name, arguments) in enumerate(calls):
            call_id = f"call_{at}{number}_x"
            blocks.append({"type": "call", "id": call_id, "name": name, "arguments": arguments})
        found.append({"blocks": blocks})
    found.append({"blocks": [{"type": "text", "text": FINAL}]})
    return [*found, title()]


def title() -> dict[str, Any]:
    """For clients that ask for a title besides."""
    return {"when": "Generate a title for this conversation", "blocks": [{"type": "text", "text": TITLE}]}


def edits(work: Path) -> Answers:
    """A model without tools, whose text is edited into files: first wrongly, so that the test has something to say."""
    return [
        {"blocks": [{"type": "thinking", "text": THOUGHTS[0]}, {"type": "text", "text": _block(WRONG, "Hallo, ")}]},
        {"when": "AssertionError", "blocks": [{"type": "thinking", "text": THOUGHTS[1]},
                                              {"type": "text", "text": _block("Hallo, ", RIGHT)}]},
    ]  # fmt: skip


def _block(old: str, new: str) -> str:
    lines = ("<<<<<<< SEARCH", f'    return f"{old}{{name}}!"', "=======", f'    return f"{new}{{name}}!"',
             ">>>>>>> REPLACE")  # fmt: skip
    return "\n".join((f"It says `{old}`. I change that.", "", FILE, "```python", *lines, "```", ""))
