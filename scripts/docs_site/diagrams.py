"""The library that draws the diagrams of the pages (Mermaid, the small build), fetched from npm, verified, and kept.

It is not in git: 2.9 MB. The site loads it from its own folder, and only on pages with a diagram.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
URL = "https://registry.npmjs.org/@mermaid-js/tiny/-/tiny-12.0.0.tgz"
SHA512 = "ZW9YXy+3tSLPscBT+NnQO0K0qYH7BGES5nExl6Snoygey7xd2N0cO7Nq30N5k/u7gIeYoCrldyVy+VTCMWrNDQ=="
"""Base64, as npm's lock files have it."""
KEPT = ROOT / "build" / "docs-diagrams"
FILES = {"package/dist/mermaid.tiny.js": "mermaid.js", "package/LICENSE": "LICENSE.mermaid"}


class DamagedPackage(Exception):
    """What npm sent is not what was recorded."""


def files() -> dict[str, bytes]:
    """The library and its licence by the names to give them. Raises OSError, DamagedPackage."""
    kept = KEPT / Path(URL).name
    if not kept.exists():
        with urllib.request.urlopen(URL, timeout=60) as reply:
            archive = reply.read()
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(archive)
    archive = kept.read_bytes()
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != SHA512:
        kept.unlink()
        raise DamagedPackage(f"{URL} has another hash than the one recorded in {Path(__file__).name}; try again")
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        return {name: _read(package, path) for path, name in FILES.items()}


def _read(package: tarfile.TarFile, path: str) -> bytes:
    file = package.extractfile(path)
    assert file is not None
    return file.read()
