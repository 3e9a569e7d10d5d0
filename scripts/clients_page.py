"""Write docs/reference/clients.md from what `stoker client` prints.

With --check only say whether it is stale, and exit 1.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

from stoker.cli.main import run
from stoker_setup.clients.all_clients import CLIENTS
from stoker_setup.clients.needs import needed_context

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "clients.md"
CONFIG = """\
[front_door]
port = 8000
prefixes = ["/llm"]
allowed_hosts = ["app.example"]
keys = [{ name = "team", value = "env:STOKER_KEY" }]

[[serve]]
name = "coder"
engine = "vllm"
model = "some/coder"
base_url = "http://10.0.0.7:30000/v1"
context = 131072
"""
HEAD = """\
# Clients

`stoker client NAME` prints the settings of each:

{needs}

*Needs* is the smallest context with which an agent can work: the first multiple of 4,096 that leaves, beside the reply,
twice the client's own prompt. The command warns if the serve has less.

- **Context.** The serve's ceiling is prompt and reply together. A quarter of it, at most 32,768 tokens, is the reply's;
  the rest, rounded down to a multiple of 1,024, is recommended for the client.
- **Temperature.** The serve's `sampling.temperature`, else 0 for clients that edit code and nothing for others.
- **Key.** Only a variable's name: `--key-env`, else that of the first key's `env:NAME`, else `STOKER_KEY`. Where no key
  is asked for it gets the value `none`, because clients refuse to start without one.
- **Model.** `--model`, else the first production serve.

*Tried with* names the version that was run with these settings against a scripted server; of Cline the command line, of
Continue `cn`. The settings pages of editors are from their documentation.

Some of the output, written by `scripts/clients_page.py`, for this configuration:

```toml
{config}```

"""
SHOWN = ("claude-code", "codex", "opencode", "aider", "openai-python")
"""The clients whose settings the page shows; the others are one command away."""


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "stoker.toml"
        config.write_text(CONFIG)
        sections = [f"## {CLIENTS[name].title}\n\n```console\n{_printed(name, config)}```\n" for name in SHOWN]
    return HEAD.format(config=CONFIG, needs=_needs()) + "\n".join(sections)


def _needs() -> str:
    rows = ["| client | NAME | own prompt | needs |", "|---|---|---|---|"]
    for name, client in CLIENTS.items():
        needed = needed_context(client)
        own = "" if client.own_prompt is None else f"{client.own_prompt:,}"
        rows.append(f"| {client.title} | `{name}` | {own} | {'' if needed is None else f'{needed:,}'} |")
    return "\n".join(rows)


def _printed(name: str, config: Path) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(["client", name, "--config", str(config), "--base-url", "https://app.example/llm"])
    if code:
        raise SystemExit(f"stoker client {name} exits with {code}")
    return f"$ stoker client {name} --base-url https://app.example/llm\n{out.getvalue()}"


def main() -> int:
    os.environ.setdefault("STOKER_KEY", "a value that must not be printed")
    made = page()
    if "--check" in sys.argv:
        is_stale = PAGE.read_text(encoding="utf-8") != made
        print(
            "docs/reference/clients.md: stale; run python scripts/clients_page.py"
            if is_stale
            else "docs/reference/clients.md in step"
        )
        return int(is_stale)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
