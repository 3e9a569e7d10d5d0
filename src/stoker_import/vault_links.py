"""`--link`: hard links in the vault to files that another program owns. They outlive its `rm`; nothing is copied."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.config.paths import VAULT
from stoker.domain.errors import ClientError
from stoker.store.files.split_gguf import GgufPart
from stoker_import.gguf_folders import parts_of
from stoker_import.imported import FileLink, ImportedConfig

_FILES = {"--mmproj": "mmproj", "--lora": "lora", "-md": "draft", "--model-draft": "draft"}
"""Options whose value is a file, and the suffix of its name in the vault."""


class LinkRefused(ClientError):
    """A link could not be made; the message says why, and what to do."""

    code = "link_refused"


def link_into_vault(imported: ImportedConfig, vault: Path) -> ImportedConfig:
    """The same configuration with `vault:NAME.gguf` for model files, and the links for that. Changes no file."""
    links: dict[Path, Path] = {}
    serves = [_linked(dict(row), vault, links) for row in imported.document.get("serve", ())]
    document = {**imported.document, "serve": serves}
    comments = ("The models are hard links in the vault: they stay if the program that downloaded them removes them.",)
    made = tuple(FileLink(source, target) for source, target in links.items())
    return replace(imported, document=document, links=made, comments=comments)


def _linked(row: dict[str, Any], vault: Path, links: dict[Path, Path]) -> dict[str, Any]:
    model = row.get("model")
    if not isinstance(model, str) or not os.path.isabs(model) or not os.path.isfile(model):
        return row
    first = Path(model)
    files = parts_of(first)
    for number, file in enumerate(files, start=1):
        name = str(GgufPart(row["name"], number, len(files))) if len(files) > 1 else f"{row['name']}.gguf"
        links.setdefault(file, vault / name)
    row["model"] = f"{VAULT}{links[first].name}"
    words = list(row.get("extra_args", ()))
    for place, (option, value) in enumerate(itertools.pairwise(words), start=1):
        if option in _FILES:
            target = vault / f"{row['name']}-{_FILES[option]}{_number(links, row['name'], option)}.gguf"
            words[place] = str(links.setdefault(Path(value), target))
    return row | ({"extra_args": words} if words else {})


def _number(links: dict[Path, Path], name: str, option: str) -> str:
    """A serve may have several files of one kind."""
    count = sum(target.name.startswith(f"{name}-{_FILES[option]}") for target in links.values())
    return f"-{count + 1}" if count else ""


def make_links(links: Sequence[FileLink]) -> list[Path]:
    """Makes all links, or none. Existing ones stay. Raises LinkRefused."""
    made: list[Path] = []
    try:
        for link in links:
            link.target.parent.mkdir(parents=True, exist_ok=True)
            source = link.source.resolve()
            if link.target.exists() and link.target.samefile(source):
                continue
            os.link(source, link.target)
            made.append(link.target)
    except OSError as error:
        for target in made:
            target.unlink(missing_ok=True)
        raise LinkRefused(f"{link.source} cannot be linked to {link.target}: {_advice(error, link)}") from error
    return made


def _advice(error: OSError, link: FileLink) -> str:
    if error.errno == errno.EXDEV:
        return "they are on different file systems. Leave --link out: then the file is served where it is"
    if isinstance(error, FileExistsError):
        return "another file is there. Move it away, or leave --link out"
    if isinstance(error, PermissionError):
        return (
            "only the owner of a file may link it. Run this as that user, or leave --link out: then the file is served "
            "where it is"
        )
    return f"{error.strerror}. Leave --link out: then the file is served where it is"
