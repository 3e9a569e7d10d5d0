"""`[front_door.tls]`: the certificate of the front door."""

from __future__ import annotations

from pathlib import Path

from stoker.config.paths import absolute
from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Text
from stoker.domain.access import TlsSettings


class TlsTable(Section):
    """The front door speaks HTTPS with this certificate. The files are read again when they change."""

    cert: Text | None = setting(None, "Required. PEM file with the certificate, and those between it and its root.")
    key: Text | None = setting(None, "Required. PEM file with its key, not encrypted.")
    client_ca: Text | None = setting(
        None, "PEM file with the roots of client certificates. Given: a client without such a certificate is refused."
    )

    def to_settings(self, directory: Path) -> TlsSettings:
        """Relative paths are relative to `directory`. Call it only if both files are given."""

        def path(text: str | None) -> str:
            return str(absolute(text or "", directory))

        return TlsSettings(path(self.cert), path(self.key), path(self.client_ca) if self.client_ca else None)
