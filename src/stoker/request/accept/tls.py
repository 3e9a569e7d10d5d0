"""TLS at the front door: reads and checks the certificate, and follows its files.

A new certificate counts for new connections; those that exist are not disturbed. A pair of files that cannot be used
(half written, mismatched, expired) is not taken: the old certificate goes on. TLS 1.2 at least.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from stoker.domain.access import TlsSettings

log = logging.getLogger("stoker.front")

CHECK_EVERY = 1.0
"""Seconds between two looks at the files."""
HANDSHAKE_TIMEOUT = 10.0
WARN_DAYS = 14
_PARTIAL_CHAIN = 0x80000
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_PARTIAL_CHAIN and X509_V_FLAG_NO_CHECK_TIME."""


class UnusableCertificate(ValueError):
    """`setting`: `cert`, `key` or `client_ca`. The text says what is wrong and what to do."""

    def __init__(self, setting: str, text: str) -> None:
        super().__init__(text)
        self.setting = setting


class Certificate(NamedTuple):
    """A context with a certificate that can be used now. `expires_at`: Unix time."""

    context: ssl.SSLContext
    expires_at: float

    def days_left(self, now: float) -> float:
        return (self.expires_at - now) / 86_400


def load_certificate(tls: TlsSettings, now: float) -> Certificate:
    """Read and check the files. Raises UnusableCertificate:

    1. a file is missing or cannot be read  2. it is not PEM  3. the key is encrypted, or belongs to another certificate
    4. the certificate is not valid now
    """
    paths = {"cert": tls.cert, "key": tls.key, **({"client_ca": tls.client_ca} if tls.client_ca else {})}
    for setting, path in paths.items():
        try:
            with open(path, "rb") as file:
                content = file.read(2**20)
        except OSError as error:
            raise UnusableCertificate(setting, f"{path} cannot be read: {error.strerror}") from None  # 1
        if b"-----BEGIN " not in content:
            raise UnusableCertificate(setting, f"{path} is not a PEM file: it has no '-----BEGIN' line")  # 2
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key, password=_refuse_password)
    except _EncryptedKey:
        text = f"{tls.key} is encrypted: Stoker cannot ask for its password; decrypt it with `openssl pkey`"
        raise UnusableCertificate("key", text) from None  # 3
    except (ssl.SSLError, OSError) as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            text = f"{tls.key} is not the key of {tls.cert}: give the pair that was made together"
            raise UnusableCertificate("key", text) from None  # 3
        raise UnusableCertificate("cert", f"{tls.cert} with {tls.key} cannot be used: {error}") from None  # 2
    if tls.client_ca:
        try:
            context.load_verify_locations(tls.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise UnusableCertificate("client_ca", f"{tls.client_ca} has no usable certificate: {error}") from None  # 2
        context.verify_mode = ssl.CERT_REQUIRED
    begins_at, expires_at = _validity(tls)
    if now >= expires_at:
        raise UnusableCertificate("cert", f"{tls.cert} has expired on {_date(expires_at)}: renew it")  # 4
    if now < begins_at:
        text = f"{tls.cert} is not valid before {_date(begins_at)}: check it, and this machine's clock"
        raise UnusableCertificate("cert", text)  # 4
    return Certificate(context, expires_at)


class CertificateWatcher:
    """Follows the files of one certificate. `context` is what connections are accepted with, as long as it lives."""

    def __init__(self, tls: TlsSettings, wall: Callable[[], float], note: Callable[[str], None]) -> None:
        """Raises UnusableCertificate. `note` gets what operators should know, once."""
        self._tls = tls
        self._wall = wall
        self._note = note
        self._signature = self._stat()
        self._problem = ""
        self.certificate = load_certificate(tls, wall())
        self.context = self.certificate.context

    async def run(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            self.check()

    def check(self) -> bool:
        """Take a new certificate over if the files have changed. True: it was."""
        signature = self._stat()
        if signature == self._signature:
            return False
        try:
            found = load_certificate(self._tls, self._wall())
        except UnusableCertificate as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("the new certificate is not used: %s; the old one goes on", error)
                self._note(f"the new certificate is not used: {error}")
            return False  # perhaps the other file is still being written: look again
        self._signature, self._problem = signature, ""
        self.context.load_cert_chain(self._tls.cert, self._tls.key)
        self.certificate = Certificate(self.context, found.expires_at)
        log.info("the certificate was replaced; it is valid until %s", _date(found.expires_at))
        self._note(f"the certificate was replaced; it is valid until {_date(found.expires_at)}")
        return True

    def _stat(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for path in (self._tls.cert, self._tls.key):
            try:
                seen = os.stat(path)
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((seen.st_mtime_ns, seen.st_ino, seen.st_size))
        return tuple(found)


class _EncryptedKey(Exception):
    """OpenSSL asks for a password."""


def _refuse_password() -> str:
    raise _EncryptedKey


def _validity(tls: TlsSettings) -> tuple[float, float]:
    """From when until when the certificate is valid (Unix times).

    The standard library shows these dates only of a peer's certificate, so it is presented to a client in memory.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls.cert, tls.key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    with open(tls.cert, encoding="ascii", errors="replace") as file:
        client.load_verify_locations(cadata=_first_certificate(file.read()))
    client.verify_flags |= ssl.VerifyFlags(_PARTIAL_CHAIN | _NO_CHECK_TIME)
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                raise UnusableCertificate("cert", f"{tls.cert} cannot be presented: {error}") from None
    shown = sides[0].getpeercert() or {}
    dates = [ssl.cert_time_to_seconds(str(shown[name])) for name in ("notBefore", "notAfter")]
    return dates[0], dates[1]


def _first_certificate(text: str) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = text.find(begin)
    return text[start : text.find(end, start) + len(end)] + "\n"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
