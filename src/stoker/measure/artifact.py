"""A run as a file."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

import msgspec

from stoker.domain.run import Kind, Run


def new_id(kind: Kind, serve: str, at: float) -> str:
    """`20261121T175901Z-preflight-fast-3f2a`; sorts by time."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    name = re.sub(r"[^a-z0-9._-]+", "-", serve.lower()).strip("-.") or "serve"
    return f"{moment}-{kind.value}-{name[:40]}-{secrets.token_hex(2)}"


def save(run: Run, directory: Path) -> Path:
    """DIRECTORY/ID.json, 0600, whole or not at all. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{run.id}.json"
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(run), indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return path
