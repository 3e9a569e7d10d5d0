"""Secrets of the configuration beside the keys: in a serve's environment and command lines, recognised by the names of
variables and options, and in other tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stoker.config.sections import extension_secrets
from stoker.domain.access import Settings
from stoker.domain.serve import Serve

_SECRET_VARIABLE = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|KEY)($|_)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--?(.*[-_])?(token|secret|password|key)", re.IGNORECASE)
SHORTEST_SECRET = 8
"""Characters. A shorter value would match too much text that is not a secret."""


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable with this name usually holds a secret."""
    return _SECRET_VARIABLE.search(name) is not None


def is_secret_option(option: str) -> bool:
    """Whether the value of this command-line option is usually a secret: `--api-key`, `--hf-token`."""
    return _SECRET_OPTION.fullmatch(option) is not None


def secret_words(words: Sequence[str]) -> dict[int, str]:
    """The positions of secrets in a command line, each with its option: `--api-key X`, `--hf-token=X`.

    A value with a placeholder (`{key}`) is not a secret.
    """
    found: dict[int, str] = {}
    for index, word in enumerate(words):
        option, has_value, value = word.partition("=")
        if not is_secret_option(option):
            continue
        at = index if has_value else index + 1
        if at < len(words) and "{" not in (value if has_value else words[at]):
            found[at] = option
    return found


def secrets_of(serve: Serve) -> Iterator[str]:
    """All of them, but for short values."""
    values = [value for name, value in serve.env.items() if is_secret_variable(name)]
    for words in (serve.cmd or (), serve.extra_args, serve.up or (), serve.stop or ()):
        values += [
            words[at].partition("=")[2] if words[at].startswith("-") else words[at] for at in secret_words(words)
        ]
    yield from (value for value in values if len(value) >= SHORTEST_SECRET)


def secrets_of_tables(settings: Settings) -> Iterator[str]:
    """Those of clusters and of extensions' tables that can be read, but for short values."""
    secrets = [*(cluster.token for cluster in settings.clusters), *extension_secrets(settings).values()]
    values = (secret.reveal() for secret in secrets if secret.is_readable)
    yield from (value for value in values if len(value) >= SHORTEST_SECRET)
