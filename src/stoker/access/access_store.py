"""Keeps `STATE/access.db` in step with the keyring, the counters of limits, and usage.

Changes by an operator are on disk when their call returns. Counters and usage follow every second. The file is used by
one thread, which never blocks requests; while the disk does not take anything, what has to be written waits in memory.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from stoker.access.access_file import USAGE_COLUMNS, AccessFile, AccessRecords, CounterRow, UsageRow
from stoker.access.keyring import Keyring
from stoker.access.usage import HOUR, UsageTotals
from stoker.domain.errors import StokerError
from stoker.domain.runtime_key import RuntimeKey, SettingsOverride
from stoker.store.files.remedies import remedy
from stoker.store.key_usage import COLUMNS, KeyUsageCounts

log = logging.getLogger("stoker.access")

INTERVAL = 1.0
"""Seconds between two writes of counters and usage: what a crash may lose."""
DAY = 86_400
_COUNTED = [USAGE_COLUMNS.index(name) for name in COLUMNS]
PRUNE_EVERY = 3600.0

Result = TypeVar("Result")


class AccessStore:
    """`wall`: Unix seconds by which usage is dated and keys expire."""

    def __init__(
        self,
        path: Path,
        usage_days: int,
        wall: Callable[[], float],
        steady: Callable[[], float],
        counts: KeyUsageCounts | None = None,
    ) -> None:
        """Opens the file. Raises StokerError `state_unusable`. `steady`: what limits count by; see `SteadyTime`.
        `counts`: totals for /metrics."""
        self._path = path
        self._now = wall
        self._usage_days = usage_days
        self._counts = counts or KeyUsageCounts()
        self._executor = ThreadPoolExecutor(1, "access")
        self._pruned_at = float("-inf")
        self._is_failing = False
        self.usage = UsageTotals(wall)
        try:
            self._file = AccessFile(path)
            self.records: AccessRecords = self._file.read()
        except (sqlite3.Error, OSError) as error:
            raise _unusable(path, error) from error
        self.keyring = Keyring(self.records.salt, self.records.counters, wall, steady)
        self.keyring.load(self.records.keys, self.records.overrides)

    # -- changes by operators: on disk first, then in effect ----------------------------------------------------------

    async def save_key(self, key: RuntimeKey) -> None:
        """Raises StokerError `state_unusable`; then nothing has changed."""
        await self._write(self._file.save_key, key)
        self.keyring.put_key(key)

    async def delete_key(self, name: str) -> None:
        """Raises as `save_key`."""
        await self._write(self._file.delete_key, name)
        await self._write(self._file.delete_override, "key", name)
        self.keyring.remove_key(name)

    async def save_override(self, override: SettingsOverride) -> None:
        """Raises as `save_key`."""
        await self._write(self._file.save_override, override)
        self.keyring.put_override(override)

    async def delete_override(self, kind: str, name: str) -> None:
        """Raises as `save_key`."""
        await self._write(self._file.delete_override, kind, name)
        self.keyring.remove_override(kind, name)

    # -- usage ---------------------------------------------------------------------------------------------------------

    async def usage_between(self, first_hour: int, last_hour: int) -> list[UsageRow]:
        """All usage, also what is not on disk yet. Raises as `save_key`."""
        pending = [row for row in self.usage.pending() if first_hour <= row[0][0] <= last_hour]
        return [*await self._write(self._file.usage, first_hour, last_hour), *pending]

    async def run(self) -> None:
        """Write counters and usage until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write what has changed. A problem of the disk is logged once, and what could not be written is kept."""
        rows, counters = self.usage.take(), self._changed_counters()
        if not rows and not counters:
            return
        work = asyncio.get_running_loop().run_in_executor(self._executor, self._add, rows, counters)
        self._on_written(await asyncio.shield(work), rows)

    def close(self) -> None:
        """Write the rest and close the file."""
        self._executor.shutdown()
        rows, counters = self.usage.take(), self._changed_counters()
        if rows or counters:
            self._on_written(self._add(rows, counters), rows)
        self._file.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    def _changed_counters(self) -> list[CounterRow]:
        rows: list[CounterRow] = []
        for owner, quota in self.keyring.quotas().items():
            changes = quota.changes()
            rows += [(owner, setting, start, used) for setting, (start, used) in changes.items()]
        return rows

    def _add(self, rows: list[UsageRow], counters: list[CounterRow]) -> Exception | None:
        try:
            self._file.add(rows, counters)
            now = self._now()
            if now - self._pruned_at >= PRUNE_EVERY:
                self._pruned_at = now
                self._file.forget_usage(int((now - self._usage_days * DAY) // HOUR))
        except (sqlite3.Error, OSError) as error:
            return error
        return None

    def _on_written(self, error: Exception | None, rows: list[UsageRow]) -> None:
        if error is None:
            for (_, key, app, _, _), amounts in rows:
                self._counts.add(key, app, [amounts[index] for index in _COUNTED])
            if self._is_failing:
                log.warning("%s can be written again", self._path)
            self._is_failing = False
            return
        self.usage.give_back(rows)
        if not self._is_failing:
            advice = remedy(error, self._path.parent)
            log.error("%s cannot be written (%s): usage waits in memory; %s", self._path, error, advice)
        self._is_failing = True

    async def _write(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run on the file's thread. On cancel the write goes on."""
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.shield(loop.run_in_executor(self._executor, work, *args))
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self._path, error) from error


def _unusable(path: Path, error: Exception) -> StokerError:
    text = f"{path} cannot be used ({error}): {remedy(error, path.parent)}"
    return StokerError(text, code="state_unusable", status=503)
