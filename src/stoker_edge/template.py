"""Renders the upstream file from its template. `@address@` and the other words in NAMES are filled in."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path

from stoker.domain.nearest import did_you_mean
from stoker_edge.edge import Edge, EdgeIngress, IngressKind, WorkerAddress
from stoker_edge.problem import EdgeProblem

NAMES = ("address", "host", "port", "name", "id", "model", "marker")
"""`id`: the name with `_` for what nginx and Caddy do not accept in names. `marker`: a hash of the rendered text."""
_SHIPPED = {IngressKind.NGINX: "nginx.conf", IngressKind.CADDY: "caddy.caddyfile"}
_WORD = re.compile(r"@([a-z_]+)@")
_MARKER = re.compile(r"^#\s*stoker-edge-marker: ([0-9a-f]{12})\s*$", re.MULTILINE)
MAX_LENGTH = 256 * 1024
"""Characters of a template."""


def render(edge: Edge, ingress: EdgeIngress, address: WorkerAddress) -> str:
    """The text of the upstream file. Raises EdgeProblem: the template cannot be read, or has an unknown word."""
    template = _template(edge.name, ingress)
    words = set(_WORD.findall(template))
    where = ingress.template or "the template"
    for word in sorted(words - set(NAMES)):
        known = ", ".join(f"@{name}@" for name in NAMES)
        hint = did_you_mean(word, NAMES) or f"; known: {known}"
        raise EdgeProblem(f"edge '{edge.name}': {where} has @{word}@, which is not filled in{hint}")
    if "address" not in words and not {"host", "port"} <= words:
        text = f"edge '{edge.name}': {where} has no @address@, so no request would reach the worker: add it"
        raise EdgeProblem(text)
    host = f"[{address.host}]" if ":" in address.host else address.host
    values = {
        "address": str(address),
        "host": host,
        "port": str(address.port),
        "name": edge.name,
        "id": re.sub(r"[^A-Za-z0-9]", "_", edge.name),
        "model": edge.worker.model,
        "marker": "",
    }
    values["marker"] = hashlib.sha256(_filled(template, values).encode()).hexdigest()[:12]
    return _filled(template, values)


def marker_of(text: str | None) -> str:
    """The marker of an upstream file; empty: it has none."""
    found = _MARKER.search(text or "")
    return found[1] if found is not None else ""


def _filled(template: str, values: dict[str, str]) -> str:
    return _WORD.sub(lambda found: values[found[1]], template)


def _template(name: str, ingress: EdgeIngress) -> str:
    if not ingress.template:
        return (resources.files("stoker_edge") / "templates" / _SHIPPED[ingress.kind]).read_text("utf-8")
    try:
        with Path(ingress.template).open(encoding="utf-8") as file:
            text = file.read(MAX_LENGTH + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise EdgeProblem(f"edge '{name}': {ingress.template} cannot be read: {reason}; correct `template`") from error
    if len(text) > MAX_LENGTH:
        raise EdgeProblem(f"edge '{name}': {ingress.template} has more than {MAX_LENGTH} characters; shorten it")
    return text
