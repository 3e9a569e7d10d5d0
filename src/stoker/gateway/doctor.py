"""Where this Stoker lives and what is wrong with it: GET /admin/doctor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from stoker import __version__
from stoker.blocking import in_own_thread
from stoker.domain.access import Settings
from stoker.domain.errors import CapacityError, ClientError
from stoker.extensions import missing_because

CHECKED_WITHIN = 30.0
"""Seconds, with the wait for those who asked before. The page gives a question up after 40 s (`api.js`)."""


class DoctorPages:
    """`self_check()`: its findings; it is called in a thread, one at a time. None: nobody can say."""

    def __init__(self, settings: Callable[[], Settings], self_check: Callable[[], dict[str, Any]] | None) -> None:
        self._settings = settings
        self._self_check = self_check
        self._turn = asyncio.Lock()

    async def document(self) -> dict[str, Any]:
        """Paths of this machine, and the findings. Raises ClientError 404 `not_offered`."""
        if self._self_check is None:
            text = f"this Stoker cannot examine itself: it needs the extension setup, {missing_because('setup')}"
            raise ClientError(text, code="not_offered", status=404)
        try:
            async with asyncio.timeout(CHECKED_WITHIN), self._turn:
                found = await in_own_thread(self._self_check, "a file that the doctor looks at")
        except TimeoutError as error:
            text = f"the findings did not come within {CHECKED_WITHIN:g} s: a file system may not answer"
            raise CapacityError(text, code="busy", retry_after=CHECKED_WITHIN) from error
        settings = self._settings()
        paths = settings.paths
        return {
            "version": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "platform": sys.platform,
            "configuration": settings.source or None,
            "state": paths.state,
            "logs": paths.logs,
            "vault": paths.vault,
            **found,
        }
