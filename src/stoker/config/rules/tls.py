"""Rules about `[front_door.tls]`: both files are given, and can be used now."""

from __future__ import annotations

import time
from pathlib import Path

from stoker.config.document import ConfigDocument
from stoker.config.tables.file import File
from stoker.request.accept.tls import UnusableCertificate, load_certificate


def check_tls(doc: ConfigDocument, file: File, directory: Path) -> None:
    """Reads the files."""
    table, path = file.front_door.tls, ("front_door", "tls")
    if table is None:
        return
    missing = [name for name in ("cert", "key") if getattr(table, name) is None]
    for name in missing:
        if not doc.is_spoiled((*path, name)):
            doc.problem(path, f"`{name}` is missing")
    if missing:
        return
    try:
        load_certificate(table.to_settings(directory), time.time())
    except UnusableCertificate as error:
        doc.problem((*path, error.setting), str(error))
