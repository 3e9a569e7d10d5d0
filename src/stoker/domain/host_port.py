"""An address as URLs and people write it."""

from __future__ import annotations


def host_port(host: str, port: int | str) -> str:
    """`127.0.0.1:8000`, `localhost:8000`, `[::1]:8000`. A host in brackets keeps them."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
