"""Renders the blocks of a client: each value quoted as the format of its block needs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from stoker.domain.dialect import Dialect
from stoker.domain.serve import Serve
from stoker_setup.clients.client_types import KEY_VALUE, BlockFormat, Client, Program, SettingsBlock
from stoker_setup.clients.facts import ClientFacts, budgets
from stoker_setup.clients.needs import AGENT_CONTEXT, needed_context

_PLACE = re.compile(r"<(\w+)>")
_CLAUDE_WINDOW, _CLAUDE_RESERVE = 200_000, 20_000
"""What Claude Code takes a model that it does not know for, and what it keeps for a reply at most."""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _form(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


QUOTE: Mapping[BlockFormat, Callable[[Any], str]] = {
    BlockFormat.SHELL: lambda value: shlex.quote(str(value)),
    BlockFormat.JSON: _json,
    BlockFormat.YAML: _json,  # a JSON value is a YAML value
    BlockFormat.TOML: _json,  # for texts, numbers and booleans; no block has another kind
    BlockFormat.PYTHON: repr,
    BlockFormat.FORM: _form,
}


def blocks(client: Client, facts: ClientFacts) -> list[SettingsBlock]:
    """The client's blocks, ready to paste; a block of which nothing is left is left out."""
    known = values(client, facts)
    filled = files(client, known)
    if client.program is not None:
        filled.append(SettingsBlock(BlockFormat.SHELL, _shell_lines(client.program, known)))
    if not facts.key.is_needed:
        filled = _with_a_key_of_no_meaning(filled, facts.key.variable)
    return [block for block in filled if block.text]


def files(client: Client, known: Mapping[str, Any]) -> list[SettingsBlock]:
    """The client's own blocks, with `known` values."""
    return [fill_block(block, known) for block in client.blocks]


def fill_block(block: SettingsBlock, known: Mapping[str, Any]) -> SettingsBlock:
    return SettingsBlock(block.format, _fill(block, known), block.where)


def fill_word(text: str, known: Mapping[str, Any]) -> str | None:
    """A variable's value or a word of a command, unquoted. None: it has a place for a value that is not known."""
    if any(known[name] is None for name in _PLACE.findall(text)):
        return None
    return _PLACE.sub(lambda match: str(known[match[1]]), text)


def _shell_lines(program: Program, known: Mapping[str, Any]) -> str:
    lines = [f"unset {name}" for name in program.unset]
    for name, text in program.variables:
        if text == KEY_VALUE:
            lines.append(f'export {name}="${known["key"]}"')
        elif (value := fill_word(text, known)) is not None:
            lines.append(f"export {name}={shlex.quote(value)}")
    words = [fill_word(word, known) or "" for word in (*program.command, *program.file_words)]
    return "\n".join([*lines, " ".join(word if word.startswith("~/") else shlex.quote(word) for word in words)])


def _fill(block: SettingsBlock, known: Mapping[str, Any]) -> str:
    quote = QUOTE[block.format]
    lines = []
    for line in block.text.strip("\n").splitlines():
        names = _PLACE.findall(line)
        if all(known[name] is not None for name in names):
            lines.append(_PLACE.sub(lambda m: known[m[1]] if m[1] == "key" else quote(known[m[1]]), line))
    return "\n".join(lines)


def _with_a_key_of_no_meaning(filled: list[SettingsBlock], variable: str) -> list[SettingsBlock]:
    """No key is needed, but clients refuse to start without one."""
    line = f'export {variable}="${{{variable}:-none}}"'
    for place, block in enumerate(filled):
        if block.format is BlockFormat.SHELL:
            block = SettingsBlock(block.format, f"{line}\n{block.text}".rstrip("\n"), block.where)
            return [block, *filled[:place], *filled[place + 1 :]]
    return filled


def model_for(client: Client, facts: ClientFacts) -> str:
    if client.plain_names and "/" in facts.model:
        return facts.serve.name
    return facts.model


def uses_helper(client: Client) -> bool:
    """Whether its settings name a model for small requests."""
    program = client.program
    texts = [block.text for block in client.blocks]
    if program is not None:
        texts += [*program.command, *(value for _, value in program.variables)]
    return any("helper_model>" in text for text in texts)


def window(client: Client, facts: ClientFacts) -> int | None:
    """The value of the client's own setting for the context size."""
    return facts.ceiling if client.takes_reply_off else facts.client_context


def values(client: Client, facts: ClientFacts) -> dict[str, Any]:
    """Everything that a block may ask for; None where it is not known."""
    model = model_for(client, facts)
    helper, helper_model = facts.helper, model if facts.helper is None else facts.helper.name
    temperature = facts.temperature(client.is_coding)
    ask: dict[str, Any] = {"model": model, "max_tokens": facts.max_output}
    ask |= {} if temperature is None else {"temperature": temperature}
    return {
        "key": facts.key.variable,
        "root": facts.root,
        "base_url": facts.base_url,
        "chat_url": f"{facts.base_url}/chat/completions",
        "models_url": f"{facts.base_url}/models",
        "model": model,
        "openai_model": f"openai/{model}",
        "stoker_model": f"stoker/{model}",
        "helper_model": helper_model,
        "openai_helper_model": f"openai/{helper_model}",
        "stoker_helper_model": f"stoker/{helper_model}",
        "helper_only": helper and helper.name,
        "openai_helper_only": helper and f"openai/{helper.name}",
        "aider_helper": helper and _aider_helper(helper),
        "opencode_helper": helper and _opencode_helper(helper),
        "temperature": temperature,
        "ceiling": facts.ceiling,
        "context_needed": needed_context(client),
        "client_context": facts.client_context,
        "window": window(client, facts),
        "window_or_default": window(client, facts) or AGENT_CONTEXT,
        "max_output": facts.max_output,
        "images": facts.takes_images,
        "inputs": ["text", "image"] if facts.takes_images else ["text"],
        "continue_skills": ["tool_use", "image_input"] if facts.takes_images else ["tool_use"],
        "claude_percent": claude_percent(facts),
        "chat_body": _json({**ask, "messages": [{"role": "user", "content": "Say hello."}]}),
    }


def _aider_helper(serve: Serve) -> dict[str, Any]:
    context, output = budgets(serve.context)
    limits = {} if context is None else {"max_input_tokens": context, "max_output_tokens": output}
    return {**limits, "litellm_provider": "openai", "mode": "chat"}


def _opencode_helper(serve: Serve) -> dict[str, Any]:
    limits = {} if serve.context is None else {"limit": {"context": serve.context, "output": budgets(serve.context)[1]}}
    return {**limits, "name": serve.name}


def claude_percent(facts: ClientFacts) -> int | None:
    """CLAUDE_AUTOCOMPACT_PCT_OVERRIDE with which Claude Code makes room before the recommended context is full.

    It has no setting for the window itself below 100,000 tokens: it takes 200,000 for granted, less the reply (at most
    20,000), and compacts at this percentage of that, or 13,000 tokens before its end. None: it would in time anyway.
    Read from version 2.1.197.
    """
    if facts.client_context is None:
        return None
    room = _CLAUDE_WINDOW - min(facts.max_output, _CLAUDE_RESERVE)
    return max(facts.client_context * 100 // room, 1) if facts.client_context < room - 13_000 else None


def header(client: Client, facts: ClientFacts) -> list[str]:
    """The facts in words, one a line."""
    temperature = facts.temperature(client.is_coding)
    takes = ", ".join(facts.serve.modalities)
    translated = "translated for tiers that do not speak it" if facts.is_task else "translated for this serve"
    spoken = "" if client.dialect in facts.serve.dialects else f" ({translated})"
    rows = [
        ("provider", f"{client.provider}, dialect {client.dialect}{spoken}"),
        ("base URL", facts.root if client.at_root else facts.base_url),
        ("model", model_for(client, facts)),
        *([("small model", facts.helper.name)] if facts.helper is not None and uses_helper(client) else []),
        ("temperature", _temperature(temperature, client)),
        ("context", _context(facts)),
        *([("needs", f"a context of {needed} tokens or more")] if (needed := needed_context(client)) else []),
        ("max output", f"{facts.max_output} tokens"),
        ("images", f"{_form(facts.takes_images)} (it takes {takes})"),
        *([("responses", _stored(facts))] if client.dialect is Dialect.RESPONSES else []),
        ("key", _key(facts)),
    ]
    tried = f", tried with {client.tried}" if client.tried else ""
    return [f"{client.title}{tried}", *(f"{name:<12} {said}" for name, said in rows), *client.notes]


def _temperature(temperature: float | None, client: Client) -> str:
    if not client.sets_temperature:
        return "the client's own"
    return "the engine's own" if temperature is None else f"{temperature:g}"


def _context(facts: ClientFacts) -> str:
    if facts.ceiling is None:
        return "unknown: give the serve a `context`" if not facts.is_task else "unknown: give the tiers' serves one"
    whose = "the smallest ceiling of its tiers" if facts.is_task else "the serve's ceiling"
    return f"{facts.ceiling} tokens at most ({whose}); recommended for the client: {facts.client_context}"


def _stored(facts: ClientFacts) -> str:
    if facts.stores_responses:
        return "stored, so `previous_response_id` and `conversation` work"
    return "not stored: `previous_response_id` and `conversation` are refused ([responses] store = true stores them)"


def _key(facts: ClientFacts) -> str:
    if not facts.key.is_needed:
        return f"not needed; ${facts.key.variable} may be anything"
    source = f", which is {facts.key.source} of the configuration" if facts.key.source else ""
    return f"the value of ${facts.key.variable}{source}; export it first"


def text(client: Client, facts: ClientFacts) -> str:
    """Everything to read and to paste. Without files among its blocks, one that a shell can read as it is."""
    parts = ["\n".join(f"# {_printable(line)}" for line in header(client, facts))]
    for block in blocks(client, facts):
        parts.append(f"# {_title(block)}\n{block.text}")
    return "\n\n".join(parts)


def _printable(line: str) -> str:
    """A path may contain a newline, and a comment that ends early would be a command."""
    return "".join(c if c.isprintable() else "?" for c in line)


def _title(block: SettingsBlock) -> str:
    if block.format is BlockFormat.SHELL:
        return f"In a shell{f' ({block.where})' if block.where else ''}:"
    return f"{'Settings' if block.format is BlockFormat.FORM else 'File'} {block.where}:"


def document(client: Client, facts: ClientFacts) -> dict[str, Any]:
    """The same for programs. No secret is in it: `key_variable` is a name."""
    return {
        "client": client.name,
        "title": client.title,
        "tried": client.tried or None,
        "provider": client.provider,
        "dialect": client.dialect,
        "translated": client.dialect not in facts.serve.dialects,
        "stores_responses": facts.stores_responses,
        "base_url": facts.root if client.at_root else facts.base_url,
        "serve": None if facts.is_task else facts.serve.name,
        "model": model_for(client, facts),
        "small_model": None if facts.helper is None or not uses_helper(client) else facts.helper.name,
        "temperature": facts.temperature(client.is_coding) if client.sets_temperature else None,
        "context_ceiling": facts.ceiling,
        "context_needed": needed_context(client),
        "client_context": facts.client_context,
        "window_setting": window(client, facts),
        "max_output": facts.max_output,
        "modalities": list(facts.serve.modalities),
        "images": facts.takes_images,
        "key_variable": facts.key.variable,
        "key_needed": facts.key.is_needed,
        "blocks": [{"format": b.format, "where": b.where, "text": b.text} for b in blocks(client, facts)],
    }
