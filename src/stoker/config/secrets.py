"""Reads secrets from `env:NAME` and `file:PATH`. No message repeats a value that was given instead."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from stoker.config.paths import absolute
from stoker.domain.serve import Secret

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAX_BYTES = 8192
SHORTEST_KEY = 16
"""Characters. A shorter key can be guessed: `openssl rand -hex 32` gives 64."""


UNSET, UNREADABLE = "is not set or empty", "cannot be read"
"""In the text of problems that another process, with other variables or another user, may not have."""


class UnreadableSecret(ValueError):
    """The source is right, and the value is not there or of no use."""


def read_secret(source: str, directory: Path, environment: Mapping[str, str] | None = None) -> Secret:
    """The secret that `source` points to; files are relative to `directory`, one trailing line break is dropped.

    Raises ValueError for a literal, and UnreadableSecret: an unset or empty variable, a file that cannot be read, or a
    value that cannot go into an HTTP header.
    """
    scheme, _, rest = source.partition(":")
    if scheme == "env" and _VARIABLE.fullmatch(rest):
        value = (os.environ if environment is None else environment).get(rest, "")
        if not value:
            raise UnreadableSecret(f"the environment variable {rest} {UNSET}; set it before you start Stoker")
    elif scheme == "file" and rest:
        value = _from_file(absolute(rest, directory))
    else:
        raise ValueError(
            "a secret must not be in this file; write env:NAME for an environment variable, or file:PATH for a file"
        )
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise UnreadableSecret(
            f"the value of {source} cannot be a key: use one line of printable ASCII without spaces around it"
        )
    return Secret(value, source)


def key_weakness(secret: Secret) -> str:
    """Why a caller's key cannot be used, and what to type; empty: it can."""
    length = len(secret.reveal())
    if length >= SHORTEST_KEY:
        return ""
    scheme, _, place = secret.source.partition(":")
    where = f"the variable {place}" if scheme == "env" else f"the file {place}"
    return (
        f"has {length} characters, and at least {SHORTEST_KEY} are needed, since a short key can be guessed: make a "
        "new one with "
        f"`openssl rand -hex 32`, put it into {where}, and give it to the clients that use the old one"
    )


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text = content.decode("ascii")
    except FileNotFoundError:
        raise UnreadableSecret(f"the file {path} does not exist; create it with mode 0600") from None
    except UnicodeDecodeError:
        raise UnreadableSecret(
            f"the file {path} cannot be a key: it contains something other than printable ASCII"
        ) from None
    except OSError as error:
        raise UnreadableSecret(f"the file {path} {UNREADABLE}: {error.strerror}; check its owner and mode") from None
    if len(content) > _MAX_BYTES:
        raise UnreadableSecret(f"the file {path} is longer than {_MAX_BYTES} bytes, too long for a key; check the path")
    if not text.strip():
        raise UnreadableSecret(f"the file {path} is empty; write the key into it")
    return text.removesuffix("\n").removesuffix("\r")
