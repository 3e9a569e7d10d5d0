"""From a path to Settings: find(), load(); from a text: load_text()."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from stoker.config.build import build, read_secrets
from stoker.config.cloud_tiers import cloud_entries
from stoker.config.document import ConfigDocument
from stoker.config.inheritance import inherit
from stoker.config.orchestrator_files import read_orchestrator_files
from stoker.config.paths import config_places
from stoker.config.renamed_keys import rename_keys
from stoker.config.rules.all_rules import check_rules
from stoker.config.rules.tls import check_tls
from stoker.config.validation import check
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError

_NEXT = "`stoker init` writes one"


def find(explicit: str | None = None) -> Path:
    """The configuration file: `explicit`, $STOKER_CONFIG, ./stoker.toml, the user's own one, then the machine's.

    The first two are taken at their word. Raises ConfigError, with the next command, when there is no file.
    """
    named = explicit or os.environ.get("STOKER_CONFIG")
    if named:
        path = Path(os.path.expanduser(named))
        if not path.is_file():
            origin = "" if explicit else " (from $STOKER_CONFIG)"
            raise ConfigError([f"{path}{origin}: there is no such file; {_NEXT}"])
        return path
    here, *others = places = config_places()
    for path in places:
        if path.is_file():
            return path
    raise ConfigError([f"no configuration file: none of ./{here}, {', '.join(map(str, others))} exists; {_NEXT}"])


def load(path: Path, needs_secrets: bool = True) -> Settings:
    """Read and check the whole file. Raises ConfigError with every problem, each `FILE:LINE: key 'x.y': ...`.

    Reads the files and environment variables that secrets point to, and the certificate; looks at nothing else: whether
    weights and commands exist is the fleet's question. Without `needs_secrets` a secret that cannot be read is a
    problem only when it is revealed, and the certificate is not read: for commands that ask the running Stoker, which
    may come from another shell or another user.
    """
    return load_text(_text(path), path, needs_secrets)


def load_text(text: str, path: Path, needs_secrets: bool = True) -> Settings:
    """`load` of a file with this text, which need not exist."""
    doc = ConfigDocument(text, str(path))
    renamed = rename_keys(doc)
    file = check(doc)
    entries = [*inherit(doc, file), *cloud_entries(file)]
    check_rules(doc, file, entries)
    source = Path(os.path.abspath(path))
    if needs_secrets:
        check_tls(doc, file, source.parent)
    secrets = read_secrets(doc, file, entries, source.parent, needs_secrets)
    orchestrator_files = read_orchestrator_files(doc, file, source.parent)
    problems = doc.problems()
    if problems:
        raise ConfigError(problems)
    return replace(build(doc, file, entries, secrets, orchestrator_files, source), renamed_keys=renamed)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError([f"{path}: there is no such file; {_NEXT}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}; check its owner and mode"]) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError([f"{path}:{line}: not TOML: a byte that is not UTF-8; save the file as UTF-8"]) from None
