"""From a path, or a text, to Settings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from stoker.config.build import build, read_secrets
from stoker.config.cloud_tiers import cloud_entries
from stoker.config.document import ConfigDocument
from stoker.config.find import read_text
from stoker.config.inheritance import inherit
from stoker.config.renamed_keys import rename_keys
from stoker.config.rules.all_rules import check_rules
from stoker.config.rules.tls import check_tls
from stoker.config.validation import check
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError


def load(path: Path, needs_secrets: bool = True) -> Settings:
    """Read and check the whole file. Raises ConfigError with every problem, each `FILE:LINE: key 'x.y': ...`.

    Reads the files and environment variables that secrets point to, and the certificate; looks at nothing else: whether
    weights and commands exist is the fleet's question. Without `needs_secrets` a secret that cannot be read is a
    problem only when it is revealed, and the certificate is not read: for commands that ask the running Stoker, which
    may come from another shell or another user.
    """
    return load_text(read_text(path), path, needs_secrets)


def load_text(text: str, path: Path, needs_secrets: bool = True) -> Settings:
    """`load` of a file with this text, which need not exist."""
    doc = ConfigDocument(text, str(path))
    renamed = rename_keys(doc)
    file = check(doc)
    entries = [*inherit(doc, file), *cloud_entries(file)]
    source = Path(os.path.abspath(path))
    check_rules(doc, file, entries, source.parent)
    if needs_secrets:
        check_tls(doc, file, source.parent)
    secrets = read_secrets(doc, file, entries, source.parent, needs_secrets)
    problems = doc.problems()
    if problems:
        raise ConfigError(problems)
    return replace(build(doc, file, entries, secrets, source), renamed_keys=renamed)
