"""Rules about `[front_door.tls]`: both files are given, and can be used now."""

from __future__ import annotations

import time
from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.paths import absolute
from stoker.config.tables.file import File
from stoker.domain.access import TlsSettings
from stoker.request.accept.tls import UnusableCertificate, load_certificate


def check_tls(doc: ConfigDocument, file: File, directory: Path) -> None:
    """Reads the files."""
    table, path = file.front_door.tls, ("front_door", "tls")
    if table is None:
        return
    missing = [name for name in ("cert", "key") if not getattr(table, name)]
    for name in missing:
        if not doc.is_spoiled((*path, name)):
            doc.problem(path, f"`{name}` is missing")
    if missing:
        return
    client_ca = None if table.client_ca is None else str(absolute(table.client_ca, directory))
    absolute_files = TlsSettings(str(absolute(table.cert, directory)), str(absolute(table.key, directory)), client_ca)
    try:
        load_certificate(absolute_files, time.time())
    except UnusableCertificate as error:
        doc.problem((*path, error.setting), str(error))
