"""Who may use Stoker: Host and Origin, then the key."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Mapping

from stoker.access.caller import Caller
from stoker.access.keyring import Keyring
from stoker.access.refusals import BadKey
from stoker.access.sessions import Sessions
from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError
from stoker.domain.key import App, Key, Scope
from stoker.domain.serve import Secret
from stoker.request.accept.cors import Cors
from stoker.request.accept.forwarded import TrustedProxies

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
OPEN = Key("", Secret("", ""), Scope.ADMIN)
"""The key of every caller if no keys are required."""
LOCAL = Key("local", Secret("", ""), Scope.ADMIN)
"""The key of callers that come through the control socket."""

MAX_KNOWN_HOSTS = 64
"""Accepted Host headers that are remembered. If any address is accepted, a caller could invent ever new ones."""

ONCE = (
    b"host", b"authorization", b"x-api-key", b"content-type", b"content-encoding", b"origin", b"sec-fetch-site",
    b"access-control-request-method", b"access-control-request-headers",
)  # fmt: skip
"""Headers on which a decision depends: two with one name would be read differently by different programs."""


class AccessControl:
    """Checks in this order: Host, Origin, key, scope."""

    def __init__(self, front_door: ListenSettings, keyring: Keyring | None = None, apps: Iterable[App] = ()) -> None:
        self.keyring = keyring or Keyring()
        self.sessions = Sessions(self.keyring.find_digest, time.monotonic)
        self.configure(front_door, apps)

    def configure(self, front_door: ListenSettings, apps: Iterable[App] = ()) -> None:
        """Apply to the next request. What keys have used, and their requests under way, go on counting."""
        self.keyring.configure(front_door.keys, apps)
        self._auth = front_door.auth
        self.session_cookie = b"stoker_%d" % front_door.port
        """Its name. Browsers send cookies to every port of a host, so each Stoker has a name of its own."""
        self._open = Caller(OPEN)
        self._local = Caller(LOCAL)
        self._hosts = {name.lower() for name in (*LOOPBACK, *front_door.allowed_hosts)}
        if front_door.host not in ("0.0.0.0", "::"):
            self._hosts.add(front_door.host.lower())
        self._hosts |= {f"[{name}]" for name in self._hosts if ":" in name and "[" not in name}
        self.pages = Cors(front_door.allowed_origins)
        self.proxies = TrustedProxies(front_door.trusted_proxies) if front_door.trusted_proxies else None
        """Whose headers about the client are believed; None: nobody's."""
        self._any_host = "*" in front_door.allowed_hosts
        self._any_address = front_door.host in ("0.0.0.0", "::")
        self._known_hosts: set[bytes] = set()
        """Host headers that were accepted, as they were spelt, so that the usual ones need not be parsed again."""

    @property
    def asks_for_keys(self) -> bool:
        """Whether a request needs a key: unless `auth` says so, as soon as there is one."""
        return self.keyring.has_keys if self._auth is None else self._auth

    @property
    def active(self) -> int:
        """Requests under way, of all callers."""
        callers = (entry.caller for entry in self.keyring.entries().values())
        return sum(caller.active for caller in callers) + self._open.active

    @property
    def remembered(self) -> int:
        """Host headers that are remembered: MAX_KNOWN_HOSTS at most."""
        return len(self._known_hosts)

    def admit(self, headers: Mapping[bytes, bytes], is_local: bool, scheme: str = "") -> Caller:
        """The caller behind a request. Raises BadKey (401), or ClientError 403 (foreign Host or Origin).

        Host and Origin are checked even where no key is: a page in a browser on this machine must not reach a keyless
        loopback, by its own origin or by a name that was rebound to 127.0.0.1.
        """
        if is_local:
            return self._local
        self.check_page(headers, scheme)
        if self._auth is not False:
            known = self.keyring.bearers.get(headers.get(b"authorization", b""))
            if known is not None:
                return known
        if not self.asks_for_keys:
            return self._open
        presented = presented_key(headers)
        if presented:
            found = self.keyring.find(presented)
        else:
            found = self.sessions.caller(headers, self.session_cookie) if b"cookie" in headers else None
        if found is None:
            raise BadKey(presented[:4].decode("latin-1"))
        return found

    def check_page(self, headers: Mapping[bytes, bytes], scheme: str = "") -> None:
        """Raises ClientError 403 if the Host is not ours, or a web page of another origin sent the request.

        `scheme`: the request's, if it is known; then a page of the same host with another scheme is foreign.
        """
        given = headers.get(b"host", b"")
        if given not in self._known_hosts:
            host = _name(given.decode("latin-1"))
            if not (self._any_host or host in self._hosts or (self._any_address and _is_address(host))):
                text = f"Host {host[:100]!r} is not allowed: add it to front_door.allowed_hosts"
                raise ClientError(text, code="foreign_host", status=403)
            if len(self._known_hosts) < MAX_KNOWN_HOSTS:
                self._known_hosts.add(given)
        origin = headers.get(b"origin")
        if origin is not None:
            own_scheme, _, own_host = origin.lower().partition(b"://")
            is_own = own_host == given.lower() and (not scheme or own_scheme == scheme.encode())
            if not is_own and not self.pages.allows(origin):
                message = "web pages of another origin are refused: add the origin to front_door.allowed_origins"
                raise ClientError(message, code="foreign_origin", status=403)


def _is_address(host: str) -> bool:
    """An IP address needs no name service, so it cannot have been rebound."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def refuse_repeated(given: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises ClientError 400 if a header on which a decision depends occurs twice."""
    names = [name for name, _ in given]
    for name in ONCE:
        if names.count(name) > 1:
            text = f"the request has {names.count(name)} '{name.decode()}' headers: send one"
            raise ClientError(text, code="repeated_header")


def presented_key(headers: Mapping[bytes, bytes]) -> bytes:
    """The bearer token; without one, the value of x-api-key."""
    scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
    key = bearer.strip() if scheme.lower() == b"bearer" else b""
    return key or headers.get(b"x-api-key", b"").strip()


def _name(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        return host[: host.find("]") + 1] or host
    return host.rpartition(":")[0] if host.count(":") == 1 else host
