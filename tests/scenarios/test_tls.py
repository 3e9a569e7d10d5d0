"""HTTPS at the front door itself: its certificate, and what happens when the files change."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.scenarios.plane import PATIENCE, Plane, poll, running, serve

from stoker.domain.access import TlsSettings
from stoker.request.accept.tls import UnusableCertificate, load_certificate
from stoker_lab.testing.script.script import Script

LONG = "script: gap=0.01 tokens=100"
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes certificates, is missing")


def certificate(directory: Path, name: str) -> Path:
    """NAME.crt and NAME.key, self-signed for localhost. Returns the certificate's path."""
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return directory / f"{name}.crt"


def tls(directory: Path, name: str = "own", **more: str) -> str:
    files = {"cert": directory / f"{name}.crt", "key": directory / f"{name}.key", **more}
    return "[front_door.tls]\n" + "\n".join(f"{key} = {json.dumps(str(value))}" for key, value in files.items())


@contextlib.contextmanager
def asked(plane: Plane, trusted: Path, client: Path | None = None, **fields: Any) -> Iterator[http.client.HTTPResponse]:
    context = ssl.create_default_context(cafile=str(trusted))
    if client is not None:
        context.load_cert_chain(client, client.with_suffix(".key"))
    connection = http.client.HTTPSConnection("localhost", plane.port, timeout=30, context=context)
    document = {"model": "a", "messages": [{"role": "user", "content": "hello"}], **fields}
    headers = {"content-type": "application/json", "connection": "close"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(document), headers)
        with connection.getresponse() as reply:
            yield reply
    finally:
        connection.close()


def status(plane: Plane, trusted: Path, client: Path | None = None) -> int:
    with asked(plane, trusted, client) as reply:
        assert "choices" in json.load(reply)
        return reply.status


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    certificate(directory, "own")
    certificate(directory, "other")
    return directory


@pytest.fixture(scope="module")
def shared(files: Path) -> Iterator[Plane]:
    with running(serve("a", Script(tokens=5), slot=None), front_door=tls(files), keeps_engines=True) as plane:
        yield plane


def test_clients_speak_https_and_the_control_socket_does_not(plane: Plane, files: Path) -> None:
    assert "listening on https://" in plane.said()
    assert plane.status()["frontdoor"]["base_url"].startswith("https://")
    assert status(plane, files / "own.crt") == 200


def test_an_sdk_streams_over_https(plane: Plane, files: Path) -> None:
    os.environ["SSL_CERT_FILE"] = str(files / "own.crt")
    try:
        with openai.OpenAI(base_url=f"https://localhost:{plane.port}/v1", api_key="none") as client:
            stream = client.chat.completions.create(
                model="a", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            assert sum(bool(one.choices and one.choices[0].delta.content) for one in stream) == 5
    finally:
        del os.environ["SSL_CERT_FILE"]


def test_a_measuring_command_asks_the_front_door_over_https(plane: Plane, files: Path) -> None:
    assert status(plane, files / "own.crt") == 200, "it runs"
    before = len(plane.decisions())
    found = plane.run("eval", "canary", "a", "--record", SSL_CERT_FILE=str(files / "own.crt"))
    assert found.returncode == 0, found
    poll(lambda: len(plane.decisions()) > before, "its requests came through the front door")
    refused = plane.run("eval", "canary", "a", "--record", SSL_CERT_FILE=str(files / "other.crt"))
    assert refused.returncode != 0
    assert "unreachable" in refused.stdout, "another root is not trusted"


def test_plain_http_gets_nothing_and_harms_nothing(plane: Plane, files: Path) -> None:
    with socket.create_connection(("127.0.0.1", plane.port), timeout=15) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(1000)
    assert status(plane, files / "own.crt") == 200


def test_old_versions_of_tls_are_refused(plane: Plane, files: Path) -> None:
    context = ssl.create_default_context(cafile=str(files / "own.crt"))
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)), socket.create_connection(("127.0.0.1", plane.port)) as plain:
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_new_certificate_counts_without_dropping_streams(tmp_path: Path) -> None:
    certificate(tmp_path, "own")
    certificate(tmp_path, "new")
    first = tmp_path / "first.crt"
    shutil.copy(tmp_path / "own.crt", first)
    with running(serve("a", Script(tokens=40, gap=0.1), slot=None), front_door=tls(tmp_path)) as plane:
        lines: list[bytes] = []
        begun = threading.Event()

        def read() -> None:
            with asked(plane, first, stream=True) as reply:
                lines.append(reply.readline())
                begun.set()
                lines.extend(reply.readlines())

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait(30)
        shutil.copy(tmp_path / "new.crt", tmp_path / "own.crt")  # half of the pair: not used
        poll(lambda: "the new certificate is not used" in str(plane.status()["events"]), "it is noticed")
        assert status(plane, first) == 200
        shutil.copy(tmp_path / "new.key", tmp_path / "own.key")
        poll(lambda: "the certificate was replaced" in str(plane.status()["events"]), "it is taken over")
        assert status(plane, tmp_path / "new.crt") == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            status(plane, first)
        (tmp_path / "own.crt").unlink()
        poll(lambda: "cannot be read" in str(plane.status()["events"]), "it is missed")
        assert status(plane, tmp_path / "new.crt") == 200, "the old one goes on"
        reader.join()
        assert lines[-2:] == [b"data: [DONE]\n", b"\n"], "the stream went on"


def test_clients_need_a_certificate_where_their_roots_are_given(files: Path) -> None:
    door = tls(files, client_ca=str(files / "other.crt"))
    with running(serve("a", Script(tokens=5), slot=None), front_door=door) as plane:
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            status(plane, files / "own.crt")
        assert status(plane, files / "own.crt", client=files / "other.crt") == 200


@pytest.mark.parametrize(
    ("cert", "key", "says"),
    [
        ("own.crt", "other.key", "front_door.tls.key': .*other.key is not the key of .*own.crt"),
        ("nothing.crt", "own.key", "front_door.tls.cert': .*nothing.crt cannot be read: No such file"),
        ("own.crt", "text.key", "front_door.tls.key': .*text.key is not a PEM file"),
        ("own.crt", "locked.key", "front_door.tls.key': .*locked.key is encrypted"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(
    files: Path, tmp_path: Path, cert: str, key: str, says: str
) -> None:
    (files / "text.key").write_text("a key")
    make = ["openssl", "pkey", "-in", files / "own.key", "-aes256", "-passout", "pass:x", "-out", files / "locked.key"]
    subprocess.run(make, check=True, capture_output=True)
    with running(serve("a", slot=None), started=False) as plane:
        text = plane.config.read_text()
        where = f'[front_door.tls]\ncert = "{files / cert}"\nkey = "{files / key}"\n'
        plane.config.write_text(text.replace("[paths]", where + "\n[paths]"))
        found = plane.run("config", "check")
        assert found.returncode != 0
        assert re.search(says, found.stdout + found.stderr), found


def test_a_certificate_counts_from_its_first_day_to_its_last(files: Path) -> None:
    settings = TlsSettings(str(files / "own.crt"), str(files / "own.key"))
    found = load_certificate(settings, time.time())
    assert 1.9 < found.days_left(time.time()) <= 2
    with pytest.raises(UnusableCertificate, match="has expired on 20"):
        load_certificate(settings, time.time() + 3 * 86_400)
    with pytest.raises(UnusableCertificate, match="is not valid before 20"):
        load_certificate(settings, time.time() - 86_400)


def test_a_replaced_front_door_goes_on_with_its_certificate_and_the_open_connection_is_closed(files: Path) -> None:
    with running(serve("a", Script(tokens=5)), front_door=tls(files)) as plane:
        with asked(plane, files / "own.crt", stream=True, messages=[{"role": "user", "content": LONG}]) as reply:
            reply.readline()
            before = plane.process
            plane.start("--config", str(plane.config), "--replace")
            assert reply.read().endswith(b"data: [DONE]\n\n")
        assert before is not None
        assert before.wait(PATIENCE) == 0
        assert status(plane, files / "own.crt") == 200
