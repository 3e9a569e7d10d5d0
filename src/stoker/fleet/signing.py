"""The state directory's key, and what the fleet makes with it: engine keys, and fingerprints that reveal nothing."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from stoker.domain.errors import StokerError

KEY_BYTES = 32


class Signer:
    """Holds `STATE/signing.key`: read, or made 0600, at first use.

    An engine's key is derived from it and from a nonce. So a record on disk needs only the nonce, and a later control
    plane can still talk to an engine that an earlier one started.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: bytes | None = None

    def engine_key(self, name: str, nonce: str) -> str:
        """The key of one start of one serve: 64 hex digits. Raises StokerError `state_unusable`."""
        return self.digest("engine", name, nonce)

    def digest(self, *parts: str) -> str:
        """64 hex digits over `parts`. Raises StokerError `state_unusable`."""
        if self._key is None:
            self._key = self._read_or_make()
        # Lengths first, so that no two lists of parts look alike.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _read_or_make(self) -> bytes:
        try:
            if not self._path.exists():
                self._make()
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as file:
                is_open = os.fstat(handle).st_mode & 0o077
                key = file.read(KEY_BYTES + 1)
        except OSError as error:
            raise self._unusable(f"cannot be used ({error.strerror})") from error
        if is_open:
            raise self._unusable("can be read by other users")
        if len(key) != KEY_BYTES:
            raise self._unusable(f"does not hold {KEY_BYTES} bytes")
        return key

    def _make(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(6)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
            os.link(draft, self._path)  # whole from its first moment; whoever comes second uses the first one's
        except FileExistsError:
            return
        finally:
            draft.unlink()

    def _unusable(self, what: str) -> StokerError:
        return StokerError(f"{self._path} {what}: delete it and start again, a new one is made", code="state_unusable")
