"""An address is written so that its port can be told from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.domain.host_port import host_port

SOURCES = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    ("host", "written"),
    [("127.0.0.1", "127.0.0.1:80"), ("box.local", "box.local:80"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80")],
)
def test_an_ipv6_address_is_in_brackets(host: str, written: str) -> None:
    assert host_port(host, 80) == written


def test_no_other_place_joins_a_host_and_a_port() -> None:
    joined = re.compile(r"\{[\w.]*(host|address)\}:\{[\w.]*port")
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if joined.search(line) and "testing" not in path.parts and path.name != "host_port.py"
    ]
    assert found == []
