"""What one serve must have, must not have, and may not combine."""

from __future__ import annotations

import re
from pathlib import Path

from stoker.config.document import Document
from stoker.config.inherit import Entry
from stoker.config.nearest import did_you_mean
from stoker.config.paths import VAULT, in_vault

FILLED_IN = ("port", "model", "dir", "host", "name", "key")
_PLACEHOLDER = re.compile(r"(?<!\{)\{([a-zA-Z_]+)\}(?!\})")

_OURS_TO_START = (
    "cmd", "host", "port", "slot", "memory", "keep_loaded", "idle_unload", "stop_grace", "env",
    "extra_args", "threads", "gpu_layers", "requires", "conflicts", "embedded",
)  # fmt: skip
"""Keys that mean nothing for a serve that somebody else starts."""


def check_serves(doc: Document, entries: list[Entry]) -> None:
    """Each serve by itself. An abstract one need not be complete: its children are looked at instead."""
    for entry in entries:
        if entry.table.abstract:
            _check_abstract(doc, entry)
        elif doc.is_spoiled(entry.at(doc, "driver")):
            continue
        elif entry.is_external:
            _check_external(doc, entry)
        else:
            _check_process(doc, entry)


def _check_abstract(doc: Document, entry: Entry) -> None:
    for key in ("served_name", "aliases"):
        if entry.gives(doc, key):
            doc.problem(entry.at(doc, key), "an abstract serve cannot be asked for, and names are not inherited")


def _check_external(doc: Document, entry: Entry) -> None:
    if entry.lacks(doc, "base_url"):
        doc.problem(
            entry.at(doc, "driver"),
            f"serve '{entry.name}' is external and has no `base_url`: where does it answer?",
        )
    for key in _OURS_TO_START:
        if entry.gives(doc, key):
            doc.problem(
                entry.at(doc, key),
                f"means nothing for serve '{entry.name}': it is external, Stoker neither starts nor stops it; "
                "take it out, or take `base_url` out",
            )


def _check_process(doc: Document, entry: Entry) -> None:
    table = entry.table
    if table.base_url is not None:
        doc.problem(
            entry.at(doc, "base_url"), 'is for external serves, and driver is "process"; take one of the two out'
        )
        return
    if entry.engine == "openai" and entry.lacks(doc, "cmd") and not doc.is_spoiled(entry.at(doc, "engine")):
        doc.problem(
            entry.at(doc, "engine"),
            f"engine openai has no command line of its own: give serve '{entry.name}' a `cmd`, "
            "or a `base_url` if it runs by itself",
        )
    _check_model(doc, entry)
    if table.cmd is not None:
        _check_cmd(doc, entry, table.cmd)


def _check_model(doc: Document, entry: Entry) -> None:
    table = entry.table
    used = table.cmd is None or any("{model}" in word for word in table.cmd)
    if doc.is_spoiled(entry.at(doc, "engine")) or doc.is_spoiled(entry.at(doc, "cmd")):
        return
    if entry.lacks(doc, "model") and used and entry.engine == "llama.cpp":
        doc.problem(
            ("serve", entry.index),
            f"serve '{entry.name}' has no `model`: give the path of a GGUF file, or vault:NAME",
        )
    elif entry.lacks(doc, "model") and table.cmd is not None and used:
        doc.problem(entry.at(doc, "cmd"), f"uses {{model}}, and serve '{entry.name}' has no `model`")
    if table.model and table.model.startswith(VAULT):
        try:
            in_vault(table.model, Path("/vault"))
        except ValueError as error:
            doc.problem(entry.at(doc, "model"), str(error))


def _check_cmd(doc: Document, entry: Entry, cmd: list[str]) -> None:
    path = entry.at(doc, "cmd")
    words = {word for part in cmd for word in _PLACEHOLDER.findall(part)}
    near = False
    for word in sorted(words.difference(FILLED_IN)):
        # Braces are also JSON and templates: only what looks like a slip is one.
        hint = did_you_mean(f"{{{word}}}", [f"{{{known}}}" for known in FILLED_IN])
        if hint:
            near = True
            doc.problem(path, f"{{{word[:40]}}} is not filled in{hint}")
    if not any("{port}" in part for part in cmd) and entry.lacks(doc, "port") and not near:
        doc.problem(path, "has no {port} in it, and there is no fixed `port`: give one of the two")
