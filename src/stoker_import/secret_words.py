"""Keeps secrets of a command and its environment out of the configuration: a shell reads them from files.

The shell replaces itself with the command, so that the process, its arguments and its id are those of the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.domain.secret_names import is_secret_name
from stoker_import.imported import SecretFile

FILLED_IN = re.compile(r"(?<!\{)\{(port|model|dir|host|name|key|pid)\}(?!\})")
"""What Stoker would fill in in a command."""
_SECRET_OPTIONS = ("--api-key", "--hf-token", "-hft", "--token", "--auth-token", "--password")
_READABLE = 300
"""Characters of a command that is written as one text."""
_SHORTEST = 4
"""A shorter value of a variable does not count as a secret: it would occur everywhere."""


@dataclass
class SecretStore:
    """The secrets of one import, each in a file of its own."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the environment that the imported files use."""
    files: list[SecretFile] = field(default_factory=list, repr=False)

    def variable_of(self, value: str) -> str | None:
        """The variable that the value came from."""
        return next((name for name, known in self.variables.items() if known == value), None)

    def reference(self, value: str, name: str) -> str:
        """`env:NAME` if the value came from the environment, else `file:PATH` of a file that will be written."""
        variable = self.variable_of(value)
        return f"env:{variable}" if variable is not None else f"file:{self.path_of(value, name)}"

    def path_of(self, value: str, name: str) -> str:
        """The file for this secret. The same value has one file."""
        for known in self.files:
            if known.value == value:
                return known.path
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "secret"
        taken = {known.path for known in self.files}
        names = (f"keys/{plain}", *(f"keys/{plain}-{n}" for n in range(2, len(taken) + 3)))
        path = next(one for one in names if one not in taken)
        self.files.append(SecretFile(path, value))
        return path

    def secrets_in(self, words: Sequence[str]) -> list[str]:
        """Secret texts within the words: values of options and variables that hold secrets."""
        found: list[str] = []
        for place, word in enumerate(words):
            option, equals, value = word.partition("=")
            if option in _SECRET_OPTIONS:
                found.append(value if equals else words[place + 1] if place + 1 < len(words) else "")
            elif equals and is_secret_name(option) and re.fullmatch(r"[A-Za-z_]\w*", option):
                found.append(value)  # docker run -e NAME=VALUE
        for name, value in self.variables.items():
            if is_secret_name(name) and any(value in word for word in words):
                found.append(value)
        return list(dict.fromkeys(one for one in found if len(one) >= _SHORTEST))


def in_shell(words: Sequence[str], secrets: Mapping[str, str], exports: Mapping[str, str]) -> list[str]:
    """The command, with secrets read from files when it starts.

    `secrets`: by the secret text, its file. `exports`: by the variable, its file.
    """
    quoted = " ".join(_quoted(word, secrets) for word in words)
    setting = "".join(f'{name}="$(cat {shlex.quote(path)})" ' for name, path in exports.items())
    return ["sh", "-c", f"{_exported(exports, setting)}exec {quoted}"]


def command_text(words: Sequence[str]) -> str | list[str]:
    """The words for a configuration: as one text if that is readable, else as a list."""
    text = " ".join(shlex.quote(word) if not word or re.search(r"[\s'\"\\#]", word) else word for word in words)
    return text if len(text) <= _READABLE and "\n" not in text else list(words)


def _exported(exports: Iterable[str], setting: str) -> str:
    names = " ".join(exports)
    return f"{setting.strip()}; export {names}; " if names else ""


def _quoted(word: str, secrets: Mapping[str, str]) -> str:
    parts = [word]
    for secret in sorted(secrets, key=len, reverse=True):
        parts = [piece for part in parts for piece in (_split(part, secret) if part not in secrets else [part])]
    return (
        "".join(
            f'"$(cat {shlex.quote(secrets[part])})"' if part in secrets else _literal(part) for part in parts if part
        )
        or "''"
    )


def _literal(text: str) -> str:
    """Quoted for a shell, and so that Stoker fills nothing in: `{port}` becomes `{'"port"'}` within the quotes."""
    return FILLED_IN.sub(lambda found: f"{{'\"{found[1]}\"'}}", shlex.quote(text))


def _split(text: str, secret: str) -> list[str]:
    pieces = text.split(secret)
    return [one for place, piece in enumerate(pieces) for one in ([secret, piece] if place else [piece])]
