"""What `stoker up --demo` prints: the address, the models, and lines to copy."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.domain.access import Settings

KEY = "STOKER_KEY"
"""The environment variable from which the lines read a key."""


def base_url(settings: Settings) -> str:
    """What clients put in front of `/chat/completions`."""
    from stoker.cli.clients.facts import root_of

    return f"{root_of(settings.front_door)}/v1"


def page_url(settings: Settings) -> str:
    """Where browsers find the web page."""
    return f"{base_url(settings).removesuffix('/v1')}/ui/"


def screen(settings: Settings, needs_key: bool = False) -> str:
    """The demo's announcement. One slot, so asking for the other model swaps. `needs_key`: keys were made at run time,
    so the lines read one from an environment variable.
    """
    url = base_url(settings)
    models = "\n".join(
        f"  {serve.name:<8}" + (f" also as {', '.join(serve.aliases)}" if serve.aliases else "")
        for serve in settings.serves
    )
    names = [serve.name for serve in settings.serves]
    first, second = names[0], names[-1]
    command, state = _stoker(), shlex.quote(settings.paths.state)
    header = f' \\\n  -H "authorization: Bearer ${KEY}"' if needs_key else ""
    reading, key = ("import os\n", f'os.environ["{KEY}"]') if needs_key else ("", '"none"')
    return f"""
Stoker answers at {url}
Web page: {page_url(settings)}

Models (one slot: asking for the other one swaps):
{models}

{_key_line(command, state) if needs_key else ""}Try it in another terminal:

curl {url}/chat/completions -H 'content-type: application/json'{header} \\
  -d '{{"model": "{first}", "messages": [{{"role": "user", "content": "hello"}}]}}'

Or in Python, after `pip install openai`:

{reading}from openai import OpenAI
client = OpenAI(base_url="{url}", api_key={key})
for chunk in client.chat.completions.create(
    model="{second}", stream=True, messages=[{{"role": "user", "content": "hello"}}]
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)

Or in Python, after `pip install anthropic`:

{reading}from anthropic import Anthropic
client = Anthropic(base_url="{url.removesuffix("/v1")}", api_key={key})
with client.messages.stream(
    model="{first}", max_tokens=64, messages=[{{"role": "user", "content": "hello"}}]
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)

Ask an orchestrator:

{command} run --state {state} "Count to 9."

See what it does, and with `decisions` also what it did after it ended:

{command} slot status --state {state}
{command} decisions --state {state}
{_path_line()}
Ctrl-C ends it, and the models with it.
"""


def _key_line(command: str, state: str) -> str:
    return f"""Requests need a key, because keys were made: put one into the variable {KEY} first. A new one:

{command} keys create another --state {state}

"""


def _stoker() -> str:
    """The command as another terminal finds it: what an activated environment put on PATH is not on PATH there."""
    own = _own()
    is_everywhere = shutil.which("stoker") and not os.environ.get("VIRTUAL_ENV")
    return "stoker" if own is None or is_everywhere else shlex.quote(str(own))


def _path_line() -> str:
    """How to type `stoker` alone, where it needs its folder."""
    own = _own()
    if own is None or _stoker() == "stoker":
        return ""
    return f'\nTo type `stoker` without its folder: export PATH="{own.parent}:$PATH"\n'


def _own() -> Path | None:
    beside = Path(sys.executable).with_name("stoker")
    return beside if beside.exists() else None
