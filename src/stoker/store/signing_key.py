"""The state directory's own key: made once, kept 0600. Engine keys are derived from it."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.store.files.atomic import write_draft
from stoker.store.files.directories import unusable
from stoker.store.files.remedies import remedy

KEY_BYTES = 32


def read_or_make(path: Path) -> bytes:
    """The 32 bytes at `path`, made at first use. Two processes that ask at once get the same ones.

    Raises StokerError `state_unusable` for a file of another length, or one that other users can read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        _make(path)
        return read_or_make(path)
    except OSError as error:
        raise unusable(
            f"{path} cannot be read ({error.strerror}): move it away and start again, and Stoker makes a new one"
        ) from error
    with os.fdopen(handle, "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise unusable(f"{path} is open to other users: delete it and start again, and Stoker makes a new one")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise unusable(
            f"{path} does not hold {KEY_BYTES} bytes: move it away and start again, and Stoker makes a new one"
        )
    return key


def _make(path: Path) -> None:
    try:
        draft = write_draft(path, os.urandom(KEY_BYTES))
        try:
            os.link(draft, path)  # complete from its first moment; the second process fails
        finally:
            draft.unlink()
    except FileExistsError:
        return  # the other one's key is as good, and it is the one that stays
    except OSError as error:
        raise unusable(f"{path} cannot be written ({error.strerror}): {remedy(error, path.parent)}") from error
