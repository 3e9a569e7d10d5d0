"""Rules about `[telemetry]`: its extra is installed, and its headers can be sent."""

from __future__ import annotations

import re
from importlib.util import find_spec

from stoker.config.document import ConfigDocument
from stoker.config.sections import Section
from stoker_otel.settings import EXTRA, Telemetry

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _check(doc: ConfigDocument, table: Telemetry) -> None:
    path = ("telemetry",)
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


TELEMETRY = Section(
    Telemetry, "Traces and metrics by OpenTelemetry. Left out: none are sent.", _check, needs_replacement=True
)
