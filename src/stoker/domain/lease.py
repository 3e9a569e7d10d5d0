"""The right to use a serve now, and where it answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stoker.domain.dialect import Dialect
from stoker.domain.key import Priority
from stoker.domain.session import Session
from stoker.domain.usage import ServeUsage


@dataclass(frozen=True)
class Target:
    """Where a ready serve answers. `key`: the key that the serve requires, never the caller's."""

    host: str
    port: int
    base_path: str = ""
    """The path before `/v1/...` in the serve's URLs, without a trailing slash; usually empty."""
    served_name: str = ""
    key: str | None = None
    tls: bool = False
    speaks: frozenset[Dialect] | None = None
    """The dialects that the serve was found to speak; None: it was not tested."""
    system_turns: str | None = None
    """`keep` or `append`, if its template was tested: see `translate.neutral.capabilities`."""
    key_header: str = "authorization"
    """Which header carries the key: `authorization` (as a bearer) or `x-api-key`."""
    address: str = ""
    """IP address to connect to; `host` stays the name that is asked for, in TLS and in `Host`. Empty: look it up."""
    is_replica_elsewhere: bool = False
    """It is an `also` of a serve, or in a slot of a box: another Stoker, which must not forward the request again."""
    ca_file: str = ""
    """File with the certificates to trust; empty: those of this machine."""


class FairShare(NamedTuple):
    """Whose request it is, when places are shared: the key's name, its priority, and its weight beside others of that
    priority.
    """

    key: str
    priority: Priority = Priority.NORMAL
    weight: float = 1.0
    session: Session | None = None
    """None: it stands alone."""


NOBODY = FairShare("")
"""For requests without a key, and those that Stoker itself makes."""


class LeaseMeter(Protocol):
    """Measures what leases of one serve use. `request.lease.state` implements it: `end` completes the lease's usage."""

    def end(self, lease: Lease, now: float) -> None: ...


class Lease:
    """Held while a request uses a serve. `exchange.upstream_client` or the block of `exchange.leasing` releases it;
    releasing twice does nothing.
    """

    __slots__ = (
        "_release", "granted_at", "id", "meter", "on_cut", "serve", "slot_entered", "target", "usage", "waited",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        serve: str,
        target: Target,
        granted_at: float,
        waited: float,
        release: Callable[[Lease], None],
        meter: LeaseMeter | None = None,
        slot_entered: float = 0.0,
    ) -> None:
        self.id = id
        self.serve = serve
        self.target = target
        self.granted_at = granted_at
        self.waited = waited
        self._release: Callable[[Lease], None] | None = release
        self.meter = meter
        self.slot_entered = slot_entered
        self.usage: ServeUsage | None = None
        """What the request used, set before the release, which adds the accelerator seconds; None: unknown."""
        self.on_cut: Callable[[str], None] | None = None
        """Called (at most once, with the reason) when the scheduler takes the lease away: the holder ends its stream
        with an error event. It may still call `release` afterwards.
        """

    def record(self, usage: ServeUsage) -> None:
        """Before the release: what was used."""
        self.usage = usage

    def release(self) -> None:
        release, self._release = self._release, None
        self.on_cut = None
        if release is not None:
            release(self)


class PendingLease(Protocol):
    """A lease that is not granted yet. `asyncio.Future[Lease]` implements it. Await it through `exchange.leasing` only.

    The request leaves the queue by `cancel`, or by `set_exception`, which also gives the reason.
    """

    def __await__(self) -> Generator[Any, Any, Lease]: ...

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def cancel(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def result(self) -> Lease: ...

    def set_exception(self, exception: BaseException, /) -> None: ...
