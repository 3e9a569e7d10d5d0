"""An address as URLs and people write it."""

from __future__ import annotations


def reachable(host: str) -> str:
    """Where this machine asks for what listens on `host`: a wildcard address is asked over loopback."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def host_port(host: str, port: int | str) -> str:
    """`127.0.0.1:8000`, `localhost:8000`, `[::1]:8000`. A host in brackets keeps them."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
