"""The tables of docs/reference/server-tools.md, from the marks of tests.   scripts/server_tools_page.py [--write]

A test that holds a cell says so: `@pytest.mark.holds("messages-search/chat", "P")`. Without --write it says whether the
page is in step, and exits 1 if it is not, or if a test names a cell that there is not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "server-tools.md"
BEGIN, END = "<!-- generated: by scripts/server_tools_page.py -->\n", "<!-- end generated -->\n"
DIALECTS = ("chat", "messages", "responses")
FORMS = {
    "messages-search": ("Messages `web_search_*`", "`server_tool_use`, `web_search_tool_result`, usage"),
    "messages-fetch": ("Messages `web_fetch_*`", "`web_fetch_tool_result` with the page as text"),
    "messages-mcp": ("Messages `mcp_servers`, `mcp_toolset`", "`mcp_tool_use`, `mcp_tool_result`"),
    "responses-search": ("Responses `web_search*`", "`web_search_call` items and events, citations"),
    "responses-mcp": ("Responses `mcp`", "`mcp_list_tools`, `mcp_call`, approval"),
    "chat-search": ("Chat `web_search_options`", "text and `annotations`, no call that the client does not know"),
}
"""What a client asks for, and what it gets."""
CASES = {
    "A": ("Nothing is set up, and the request needs the tool", "400 `server_tool_missing`; no model is asked"),
    "B": ("Nothing is set up, and the client has functions, too", "goes on without, `lossy:server_tools`"),
    "C": (
        "A function of the client has the same name",
        "Messages: 400 `tool_name_taken`; else Stoker's has another name",
    ),
    "D": ("The model's arguments are broken", "`invalid_tool_input` to the model; blocks hold valid JSON"),
    "E": ("The model does not stop calling", "at the bounds it is asked for an answer in words"),
    "F": ("The tool is forced", "in the first round only"),
    "G": ("The tool fails", "an error in its result; the model goes on"),
    "H": ("The tool hangs", "pings, and its time limit; no place of a model is held"),
    "I": ("The client leaves while the tool runs", "the call ends, nothing is left"),
    "J": ("The serve fails in a later round", "an error; no other serve, no tool runs twice"),
    "K": ("The next turn", "the model gets the sealed results back; without the seal it is told"),
    "L": ("`fetch` of a private, redirected or invented address", "refused, and nothing is sent"),
    "M": ("Hostile results: instructions, our own marks, too large, broken text", "marked, removed, cut, repaired"),
    "N": ("A key without the right; limits of keys", "as if it was not set up; limits hold for each round"),
    "O": ("Routing by `auto`", "is done once, before the first round"),
    "P": ("Calls of the client's and of Stoker's tools in one turn", "the tool runs, the client answers its own"),
    "Q": ("The real Claude Code and Codex", "search, see the results, go on in the next turn"),
    "R": ("Texts of queries and results", "in no log, decision, metric or error"),
    "S": ("A cloud that runs the tool itself", "gets the request unchanged"),
    "T": ("A real llama.cpp model", "calls the tool and goes on, in all dialects"),
    "U": ("Ollama's `/api/web_search`, `/api/web_fetch`", "answered without a model"),
    "V": ("A call is approved, also one that the client has made up", "runs once, within what its key may use"),
    "W": ("`per_minute` and `cost` of a tool", "the model is told; money counts in limits of the key and in usage"),
    "X": ("Stoker is killed while a tool's program runs", "on Linux the program ends, too"),
    "Y": ("An MCP server describes a tool otherwise than at first", "told by `doctor`, `/status` and the web page"),
}
CELLS = {*(f"{form}/{dialect}" for form in FORMS for dialect in DIALECTS), *CASES}


def held(directory: Path) -> dict[str, list[str]]:
    """By cell, the tests that hold it, as `FILE::TEST` below `directory`. Raises ValueError for an unknown cell."""
    tests: dict[str, list[str]] = {}
    for file in sorted(directory.rglob("test_*.py")):
        text = file.read_text()
        if "mark.holds" not in text:
            continue
        for cell, name in _marks(ast.parse(text)):
            if cell not in CELLS:
                raise ValueError(f"{file.relative_to(directory)}: {name} holds '{cell}', which is no cell")
            tests.setdefault(cell, []).append(f"{file.relative_to(directory)}::{name}")
    return tests


def _marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.holds":
                    for argument in mark.args:
                        yield str(ast.literal_eval(argument)), node.name


def tables(tests: dict[str, list[str]]) -> str:
    def mark(cell: str) -> str:
        return "tested" if cell in tests else "**no test**"

    forms = [
        f"| {asked} | {given} | {' | '.join(mark(f'{form}/{dialect}') for dialect in DIALECTS)} |"
        for form, (asked, given) in FORMS.items()
    ]
    cases = [f"| {letter} | {case} | {expected} | {mark(letter)} |" for letter, (case, expected) in CASES.items()]
    named = [
        f"| {cell} | {', '.join(f'`{test}`' for test in tests[cell])} |"
        for cell in (*(f"{form}/{dialect}" for form in FORMS for dialect in DIALECTS), *CASES)
        if cell in tests
    ]
    return "\n".join(
        (
            "", "| a client asks for | it gets | serve: chat | serve: messages | serve: responses |",
            "|---|---|---|---|---|", *forms, "",
            "| | case | what happens | |", "|---|---|---|---|", *cases, "",
            "## Which tests", "", "| cell | below `tests/` |", "|---|---|", *named, "", "",
        )
    )  # fmt: skip


def page(text: str) -> str:
    """The page with the current tables."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + tables(held(ROOT / "tests")) + END + rest.partition(END)[2]


def main() -> int:
    text = PAGE.read_text()
    try:
        wanted = page(text)
    except ValueError as error:
        print(error)
        return 1
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if text != wanted:
        print("docs/reference/server-tools.md is not in step: run scripts/server_tools_page.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
