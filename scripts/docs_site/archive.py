"""The site of one version as one file: what `stoker docs` serves from an installed package.

The same files give the same bytes.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

LARGEST = 2 * 1024 * 1024
"""Bytes that the archive may have in a package."""


class TooLarge(Exception):
    """The archive would make the package too large."""


def write(site: Path, file: Path) -> int:
    """Write the archive of the folder of a version; its size in bytes. Raises TooLarge, and leaves no file then."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(path for path in site.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(site).as_posix())
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
    packed = lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    if len(packed) > LARGEST:
        raise TooLarge(f"the site has {len(packed):,} bytes when packed; {LARGEST:,} may be in a package")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(packed)
    return len(packed)
