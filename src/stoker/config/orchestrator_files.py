"""The files and directories that orchestrators name: their prompts and projects."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.line_numbers import KeyPath
from stoker.config.paths import absolute
from stoker.config.tables.file import File
from stoker.domain.orchestrator import PLACEHOLDERS

MAX_PROMPT = 64 * 1024
"""Characters of a prompt file."""


def read_prompts(doc: ConfigDocument, file: File, directory: Path) -> dict[tuple[str, str], str]:
    """The text of each prompt file, by orchestrator and key. Checks the projects, too. What cannot be used becomes a
    problem: a file that cannot be read or lacks a placeholder, a project that is no directory or cannot be written.
    """
    texts: dict[tuple[str, str], str] = {}
    for name, table in file.orchestrator.items():
        for key in PLACEHOLDERS:
            if written := getattr(table, f"{key}_file"):
                text = _prompt_text(doc, ("orchestrator", name, key), absolute(written, directory), key)
                if text is not None:
                    texts[name, key] = text
        if table.project:
            path = absolute(table.project, directory)
            if not path.is_dir():
                text = f"there is no directory {path}: make it, or remove `project`"
                doc.problem(("orchestrator", name, "project"), text)
            elif not os.access(path, os.W_OK | os.X_OK):
                doc.problem(("orchestrator", name, "project"), f"{path} cannot be written: check its owner and mode")
    return texts


def _prompt_text(doc: ConfigDocument, place: KeyPath, path: Path, key: str) -> str | None:
    try:
        with path.open(encoding="utf-8") as prompt:
            text = prompt.read(MAX_PROMPT + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        doc.problem(
            place, f"{path} cannot be read: {reason}; `stoker orchestrator prompts --ship` shows the prompt that ships"
        )
        return None
    missing = [placeholder for placeholder in PLACEHOLDERS[key] if placeholder not in text]
    if missing:
        doc.problem(place, f"{path} does not contain {' and '.join(missing)}, which Stoker fills in; add it")
    if len(text) > MAX_PROMPT:
        doc.problem(place, f"{path} has more than {MAX_PROMPT} characters; shorten it")
    return text
