"""`[front_door.tls]`: the certificate of the front door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from stoker.config.paths import absolute
from stoker.domain.access import TlsSettings
from stoker.domain.kinds import Text, setting


class TlsTable(msgspec.Struct, frozen=True):
    """The front door speaks HTTPS with this certificate. The files are read again when they change."""

    cert: Annotated[
        Text | None, setting("Required. PEM file with the certificate, and those between it and its root.")
    ] = None
    key: Annotated[Text | None, setting("Required. PEM file with its key, not encrypted.")] = None
    client_ca: Annotated[
        Text | None,
        setting(
            "PEM file with the roots of client certificates. Given: a client without such a certificate is refused."
        ),
    ] = None

    def to_settings(self, directory: Path) -> TlsSettings:
        """Relative paths are relative to `directory`. Call it only if both files are given."""

        def path(text: str | None) -> str:
            return str(absolute(text or "", directory))

        return TlsSettings(path(self.cert), path(self.key), path(self.client_ca) if self.client_ca else None)
