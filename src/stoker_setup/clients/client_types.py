"""A client, its blocks of settings, and how its program is started.

In a block's text `<name>` stands for a value (`render.values` has them all), written as the block's format wants it:
quoted for a shell, as JSON in JSON, YAML and TOML. Two rules beside that: `<key>` is the name of a variable and goes
in as it is; a line with a value that is not known is left out, so no block may depend on such a line. Lines for a
shell end without a comment: an interactive zsh would take it for arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.domain.dialect import Dialect


class BlockFormat(StrEnum):
    """How a block is written, and so how values are quoted in it."""

    SHELL = "shell"
    JSON = "json"
    YAML = "yaml"
    TOML = "toml"
    PYTHON = "python"
    FORM = "form"
    """Fields of a settings page: `field: value`, nothing quoted."""


@dataclass(frozen=True, slots=True)
class SettingsBlock:
    """One text to paste. `where`: a file's path, a page's place in menus; empty for a shell."""

    format: BlockFormat
    text: str
    where: str = ""


KEY_VALUE = "<key value>"
"""In a variable of `Program`: the key itself. A shell reads it from its variable."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a client's program is started. `stoker client` prints it for a shell, `stoker launch` does it.

    `<name>` stands for a value here too; a variable whose value is not known is left out. `launch_...`: what takes the
    place of the client's files in `stoker launch`, which changes none of a person's own. There, of block N:
    `<text N>` is its text, `<file N>` the path of a file of Stoker's own with that text, and a word `<options N>`, of a
    block in TOML, one `-c KEY=VALUE` for each of its values.
    """

    command: tuple[str, ...]
    """The program and its words. Those behind `--` in `stoker launch` follow."""
    install: str
    """The command that installs it, from its own documentation."""
    variables: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()
    """Variables that would make it use another provider."""
    file_words: tuple[str, ...] = ()
    """Words that name the client's files, for a shell."""
    launch_words: tuple[str, ...] = ()
    launch_variables: tuple[tuple[str, str], ...] = ()
    launch_blocks: tuple[SettingsBlock, ...] = ()
    """Blocks for `stoker launch` alone, counted behind the client's own. `where`: the file's name."""


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    title: str
    provider: str
    """What the client itself calls this kind of provider."""
    dialect: Dialect
    blocks: tuple[SettingsBlock, ...] = ()
    program: Program | None = None
    """None: it is not started from a shell, or `blocks` say how."""
    tried: str = ""
    """The version that was run with exactly these blocks; empty: written from its documentation."""
    at_root: bool = False
    """Whether the client adds `/v1` itself."""
    is_coding: bool = True
    """Whether the client edits code: temperature 0 unless the serve says otherwise."""
    sets_temperature: bool = True
    """False: the client ignores the setting and sends its own temperature."""
    takes_reply_off: bool = False
    """Its window is prompt and reply together, and it takes the reply off itself: it gets the serve's whole ceiling.
    Others get the recommended context."""
    plain_names: bool = False
    """Model ids with a slash do not work with it."""
    helper_name: str = ""
    """The vendor's name by which it requests a small model for titles, summaries and the like; empty: it has none."""
    own_prompt: int | None = None
    """Tokens of its own instructions and tools in each request: measured, at four bytes a token."""
    documented_context: int | None = None
    """The smallest context that documentation asks for, where `own_prompt` was not measured."""
    notes: tuple[str, ...] = ()
