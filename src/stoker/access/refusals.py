"""Refusals at the front door: counted by reason, logged at a limited rate, and delayed for clients that guess keys.

1. a request without a key, or refused for another reason than its key: counted, answered at once
2. one of the first `UNDELAYED` wrong keys of an address: counted and logged, answered at once
3. a later one: answered after a delay that doubles up to `MAX_DELAY`
4. a wrong key while `MAX_WAITING` answers are delayed already: 429 at once

A correct key is never delayed, whatever else comes from its address, which may be a whole office or a proxy. The delays
keep a guesser from filling the log and the processor; what protects the keys is their length.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from dataclasses import dataclass

from stoker.domain.errors import ClientError, StokerError
from stoker.domain.printable import one_line


class BadKey(ClientError):
    """No key, or a wrong one. `begins`: its first four characters, for the log; empty: there was none."""

    status = 401
    code = "bad_key"

    def __init__(self, begins: str) -> None:
        what = "is wrong" if begins else "is missing: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
        super().__init__(f"the API key {what}")
        self.begins = begins

    @property
    def reason(self) -> str:
        return "wrong_key" if self.begins else "missing_key"


UNDELAYED = 10
"""Wrong keys of one address that are answered at once; one more every `FORGIVEN_AFTER` seconds."""
FORGIVEN_AFTER = 6.0
MIN_DELAY, MAX_DELAY = 0.1, 1.0
"""Seconds of the first delay, and of the longest."""
MAX_WAITING = 256
MAX_ADDRESSES = 1024
"""Addresses that are remembered; the one that was quiet for longest is forgotten first."""
LOG_EVERY = 60.0
"""Seconds between two lines about one address."""
MAX_LINES = 20
"""Lines about all addresses within `LOG_EVERY`."""

log = logging.getLogger("stoker.front")


@dataclass(slots=True)
class _Address:
    wrong: float = 0.0
    """Wrong keys that are not forgiven yet."""
    seen: float = 0.0
    logged: float = float("-inf")
    unlogged: int = 0


class Refusals:
    """See the module's docstring. `count(reason, origin)` is called for every refusal; `now` is monotonic."""

    def __init__(self, count: Callable[[str, str], None], now: Callable[[], float]) -> None:
        self._count = count
        self._now = now
        self._addresses: dict[str, _Address] = {}
        self._waiting = 0
        self._lines = 0
        self._lines_since = float("-inf")

    def record(self, error: StokerError, address: str) -> tuple[StokerError, float]:
        """The error to answer with, and the delay in seconds. Call `answered` after a delay that is not 0."""
        self._count(error.code if not isinstance(error, BadKey) else error.reason, origin_of(address))
        if not isinstance(error, BadKey):
            return error, 0.0  # 1
        now = self._now()
        known = self._known(_network(address), now)
        self._log(known, address, error, now)
        if not error.begins:
            return error, 0.0  # 1
        known.wrong += 1
        if known.wrong <= UNDELAYED:
            return error, 0.0  # 2
        if self._waiting >= MAX_WAITING:
            text = "too many wrong API keys came from this address: wait, and check the configured key"
            return ClientError(text, code="bad_key", status=429, retry_after=FORGIVEN_AFTER), 0.0  # 4
        self._waiting += 1
        return error, min(MAX_DELAY, MIN_DELAY * 2 ** min(10.0, known.wrong - UNDELAYED - 1))  # 3

    def answered(self) -> None:
        self._waiting -= 1

    def _known(self, network: str, now: float) -> _Address:
        known = self._addresses.pop(network, None) or _Address(seen=now)
        known.wrong = max(0.0, known.wrong - (now - known.seen) / FORGIVEN_AFTER)
        known.seen = now
        self._addresses[network] = known  # now the most recent one
        if len(self._addresses) > MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        return known

    def _log(self, known: _Address, address: str, error: BadKey, now: float) -> None:
        if now - self._lines_since >= LOG_EVERY:
            self._lines, self._lines_since = 0, now
        if now - known.logged < LOG_EVERY or self._lines >= MAX_LINES:
            known.unlogged += 1
            return
        self._lines += 1
        what = f"a wrong key that begins with '{one_line(error.begins)}'" if error.begins else "no key"
        before = f", and {known.unlogged} more since the last line about it" if known.unlogged else ""
        log.warning("refused: %s came with %s%s", address or "the control socket", what, before)
        known.logged, known.unlogged = now, 0


def origin_of(address: str) -> str:
    """`loopback`, `private`, `public`, or `socket`: the control socket, which has no address."""
    if not address:
        return "socket"
    found = _parsed(address)
    if found is None:
        return "public"
    return "loopback" if found.is_loopback else "private" if found.is_private else "public"


def _network(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network that one IPv6 customer has."""
    found = _parsed(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
