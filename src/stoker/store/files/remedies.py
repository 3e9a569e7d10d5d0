"""What to do about a file that cannot be written: it depends on the cause."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_BY_CAUSE = {
    errno.ENOSPC: "make room on the disk of {place}",
    errno.EFBIG: "its file system, or `ulimit -f`, allows no larger file: move {place}",
    errno.EDQUOT: "the quota of its user is used up: delete files there, or raise the quota",
    errno.EROFS: "the file system of {place} is read-only: mount it writable (the kernel makes it read-only after "
    "errors of the disk: see `dmesg`)",
    errno.EACCES: "make {place} writable for the user of `stoker up`",
    errno.EPERM: "make {place} writable for the user of `stoker up`",
    errno.ENOENT: "{place} is gone: create it again, for the user of `stoker up`",
    errno.ENOTDIR: "one of the directories of {place} is a file: remove it",
    errno.EISDIR: "a directory is where the file has to be: remove it",
    errno.EIO: "the disk of {place} reports errors: see `dmesg`",
    errno.EMFILE: "too many files are open: raise `ulimit -n`, or LimitNOFILE of the service",
    errno.ENFILE: "too many files are open on this machine: raise fs.file-max",
}
_SQLITE = {3: errno.EACCES, 8: errno.EACCES, 10: errno.EIO, 13: errno.ENOSPC, 14: errno.EACCES}
"""SQLITE_PERM, READONLY, IOERR, FULL and CANTOPEN (https://sqlite.org/rescode.html). To import sqlite3 takes time that
most commands do not have.
"""


def remedy(error: Exception, place: Path) -> str:
    """What to do about this error of writing in the directory `place`: the end of a sentence."""
    return _BY_CAUSE.get(cause(error, place), "check the free space of {place}, and its owner").format(place=place)


def cause(error: Exception, place: Path) -> int:
    """The number of the error, as `errno` names it; 0: unknown. SQLite says less: then `place` is looked at, too."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, 0)
    if not found:
        return 0
    try:
        disk = os.statvfs(place)
    except OSError as missing:
        return missing.errno or 0
    if disk.f_flag & os.ST_RDONLY:
        return errno.EROFS
    if found == errno.EIO and not disk.f_bavail:
        return errno.ENOSPC
    return found
