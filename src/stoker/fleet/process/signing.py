"""What the fleet makes with the state directory's key: engine keys, and fingerprints that reveal nothing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable


class KeySigner:
    """Signs with the key that `read` gives (`STATE/signing.key`), which is asked for at first use.

    An engine's key is derived from it and from a nonce. So a record on disk needs only the nonce, and a later control
    plane can still talk to an engine that an earlier one started.
    """

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._key: bytes | None = None

    def engine_key(self, name: str, nonce: str) -> str:
        """The key of one start of one serve: 64 hex digits. Raises StokerError `state_unusable`."""
        return self.digest("engine", name, nonce)

    def digest(self, *parts: str) -> str:
        """64 hex digits over `parts`. Raises StokerError `state_unusable`."""
        if self._key is None:
            self._key = self._read()
        # Lengths first, so that no two lists of parts look alike.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
