"""The configuration file that a command edits: read, checked by the real reader, replaced at once. Blocks."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.config.find import read_text
from stoker.config.load import load_text
from stoker.domain.errors import ConfigError
from stoker.engines.plan import unsupported
from stoker.store.files import atomic
from stoker_setup.config_edit import ConfigEdit, EditRefused

if TYPE_CHECKING:
    from stoker.domain.access import Settings

_NEW_MODE = 0o644


class ConfigFile:
    """A file as it is now; with `text`, one that does not exist yet and would begin so.

    A link is followed: the file that it names is replaced. Its mode, and the mark that some editors put at its
    beginning, are kept.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        """Raises ConfigError if it cannot be read."""
        self.path = path
        self._target = path.resolve()
        self._content: bytes | None = None
        self._mode = _NEW_MODE
        self.is_new = text is not None
        if text is None:
            self.text = read_text(path)
            self._content = self._target.read_bytes()
            self._mode = self._target.stat().st_mode & 0o777
        else:
            self.text = text

    def check(self, edit: ConfigEdit) -> Settings:
        """The settings after the edit. Raises ConfigError with every problem: nothing is written then."""
        settings = load_text(edit.after, self.path, needs_secrets=False)
        problems = [f"{self.path}: {text}" for serve in settings.serves for text in unsupported(serve)]
        if problems:
            raise ConfigError(problems)
        return settings

    def write(self, edit: ConfigEdit) -> None:
        """Raises EditRefused if somebody else has changed the file since it was read, or it cannot be written, and
        ConfigError as `check` does. The file is unchanged then.
        """
        self.check(edit)
        mark = codecs.BOM_UTF8 if (self._content or b"").startswith(codecs.BOM_UTF8) else b""
        content = mark + edit.after.encode()
        if self._now() != self._content:
            text = f"{self.path} was changed by somebody else meanwhile, and is left as it is: type the command again"
            raise EditRefused(text)
        try:
            atomic.write(self._target, content, mode=self._mode)
        except OSError as error:
            text = f"{self.path} cannot be written ({error.strerror}): make it and its directory writable for you"
            raise EditRefused(text) from error
        self.text, self._content = edit.after, content

    def undo(self, edit: ConfigEdit) -> None:
        """What was there before `write`; nothing if there was no file. Raises what `write` does."""
        if not self.is_new:
            self.write(ConfigEdit(edit.after, edit.before))
        else:
            self._target.unlink(missing_ok=True)

    def _now(self) -> bytes | None:
        try:
            return self._target.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EditRefused(f"{self.path} cannot be read ({error.strerror}): check its owner and mode") from error
