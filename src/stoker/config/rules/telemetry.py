"""Rules about `[telemetry]`: its extra is installed, and its headers can be sent."""

from __future__ import annotations

import re
from importlib.util import find_spec

from stoker.config.document import ConfigDocument
from stoker.config.tables.file import File
from stoker.domain.telemetry import EXTRA

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def check_telemetry(doc: ConfigDocument, file: File) -> None:
    table, path = file.telemetry, ("telemetry",)
    if table is None:
        return
    if not is_installed():
        doc.problem(path, f"needs OpenTelemetry, which is not installed: type `pip install 'stoker[{EXTRA}]'`")
    for name in table.headers:
        if not _HEADER.fullmatch(name):
            doc.problem((*path, "headers", name), "is no name of a header")


def is_installed() -> bool:
    """Whether the extra is there. Imports nothing of it."""
    try:
        return find_spec("opentelemetry.sdk") is not None and find_spec("opentelemetry.exporter.otlp") is not None
    except ModuleNotFoundError:
        return False
