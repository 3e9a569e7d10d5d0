"""The configuration file that a command edits: read, checked by the real reader, replaced at once. Blocks."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.config.find import decode, read_content
from stoker.config.load import load_text
from stoker.domain.errors import ConfigError
from stoker.engines.plan import unsupported
from stoker.store.files import atomic
from stoker_setup.config_edit import ConfigEdit, EditRefused

if TYPE_CHECKING:
    from stoker.domain.access import Settings

_NEW_MODE = 0o644


class _Tried(Exception):
    """The file could be replaced."""


class ConfigFile:
    """A file as it is now; with `text`, one that does not exist yet and would begin so.

    A link is followed: the file that it names is replaced. Its owner, group and mode, and the mark that some editors
    put at its beginning, are kept.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        """Raises ConfigError if it cannot be read."""
        self.path = path
        self._target = path.resolve()
        self._content: bytes | None = None
        self._mode = _NEW_MODE
        self._owner: tuple[int, int] | None = None
        self.is_new = text is not None
        if text is None:
            self._content = read_content(path)
            self.text = decode(path, self._content)
            status = self._target.stat()
            self._mode, self._owner = status.st_mode & 0o777, (status.st_uid, status.st_gid)
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
        self._replace(edit.after)

    def require_writable(self, edit: ConfigEdit) -> None:
        """Raises EditRefused where `write` would, as far as that is known before: what replaces the file is made and
        thrown away, and nothing changes.
        """

        def stop() -> None:
            raise _Tried

        try:
            if not self.is_new:
                self._require_changeable()
            with contextlib.suppress(_Tried):
                content = edit.after.encode()
                atomic.write(self._target, content, self._mode, owner=self._owner, is_synced=False, before_replace=stop)
        except OSError as error:
            raise EditRefused(self._unwritable(error)) from error

    def _require_changeable(self) -> None:
        """Raises OSError for a file that nobody may replace, not even root. That its mode forbids to write into it is
        no reason: it is replaced.
        """
        try:
            os.close(os.open(self._target, os.O_WRONLY | os.O_CLOEXEC))
        except PermissionError as error:
            if error.errno == errno.EPERM:
                raise OSError(errno.EACCES, "it may not be changed, by an attribute of it") from error

    def undo(self, edit: ConfigEdit) -> None:
        """What was there before `write`, valid or not; no file if there was none. Raises EditRefused as `write` does:
        what somebody else has written since stays.
        """
        if not self.is_new:
            self._replace(edit.before)
            return
        self._require_unchanged()
        self._target.unlink(missing_ok=True)
        self.text, self._content = edit.before, None

    def _replace(self, text: str) -> None:
        mark = codecs.BOM_UTF8 if (self._content or b"").startswith(codecs.BOM_UTF8) else b""
        content = mark + text.encode()
        self._require_unchanged()
        try:
            atomic.write(self._target, content, self._mode, owner=self._owner, before_replace=self._require_unchanged)
        except OSError as error:
            raise EditRefused(self._unwritable(error)) from error
        self.text, self._content = text, content

    def _unwritable(self, error: OSError) -> str:
        if error.errno == errno.EPERM and self._owner is not None:
            user, group = _owner_names(self._target, self._owner)
            return (
                f"{self.path} belongs to {user}:{group}, and you may not give them the file that replaces it: type the "
                f"command as {user}, or as root"
            )
        return f"{self.path} cannot be written ({error.strerror}): make it and its directory writable for you"

    def _require_unchanged(self) -> None:
        if self._now() != self._content:
            text = f"{self.path} was changed by somebody else meanwhile, and is left as it is: type the command again"
            raise EditRefused(text)

    def _now(self) -> bytes | None:
        try:
            return self._target.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EditRefused(f"{self.path} cannot be read ({error.strerror}): check its owner and mode") from error


def _owner_names(path: Path, owner: tuple[int, int]) -> tuple[str, str]:
    """Of its user and group; their numbers if they have no names."""
    try:
        return path.owner(), path.group()
    except (KeyError, OSError):
        return f"#{owner[0]}", f"#{owner[1]}"
