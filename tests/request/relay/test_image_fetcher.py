"""Images fetched by their address: from a real server on loopback, under a name that a resolver of ours knows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.access import Media
from stoker.domain.errors import ClientError
from stoker.domain.special_addresses import is_public
from stoker.request.relay import public_fetcher
from stoker.request.relay.image_fetcher import ImageFetcher, parse_image_address
from stoker.request.relay.public_fetcher import LONGEST, PublicAddress, resolve


@pytest.mark.parametrize(
    ("url", "expected", "authority"),
    [
        ("http://a.example", PublicAddress("http", "a.example", 80, "/"), "a.example"),
        ("HTTPS://A.Example./x?k=1#f", PublicAddress("https", "a.example", 443, "/x?k=1"), "a.example"),
        ("https://a.example:8443?k", PublicAddress("https", "a.example", 8443, "/?k"), "a.example:8443"),
        ("http://a.example:443/%20", PublicAddress("http", "a.example", 443, "/%20"), "a.example:443"),
        (
            "http://bücher.example/ü",
            PublicAddress("http", "xn--bcher-kva.example", 80, "/%C3%BC"),
            "xn--bcher-kva.example",
        ),
        ("http://[2606:4700:0:0::1]:8080/", PublicAddress("http", "2606:4700::1", 8080, "/"), "[2606:4700::1]:8080"),
        ("http://127.0.0.1/", PublicAddress("http", "127.0.0.1", 80, "/"), "127.0.0.1"),
    ],
)
def test_an_address_is_read_as_it_is_meant(url: str, expected: PublicAddress, authority: str) -> None:
    assert parse_image_address(url, ()) == expected
    assert expected.authority() == authority
    assert parse_image_address(expected.address(), ()) == expected


def test_a_redirect_is_relative_to_where_it_came_from() -> None:
    origin = parse_image_address("https://a.example:8443/x/y?k=1", ())
    assert parse_image_address("z?j", (), origin) == PublicAddress("https", "a.example", 8443, "/x/z?j")
    assert parse_image_address("//b.example/z", (), origin) == PublicAddress("https", "b.example", 443, "/z")
    assert parse_image_address("http://b.example/z", (), origin) == PublicAddress("http", "b.example", 80, "/z")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "an image is not fetched: its URL is not valid"),
        ("http:///path", "is not valid"),
        ("http:a.example", "is not valid"),
        ("//[", "is not valid"),
        ("http://[::1", "is not valid"),
        ("http://[zz:1]/", "is not valid"),
        ("http://a..b/", "is not valid"),
        ("http://" + "ü" * 70 + "/", "is not valid"),
        ("http://a%2eb/", "is not valid"),
        ("http://evil.example\\.good.example/", "is not valid"),
        ("http://a.example:99999/", "is not valid"),
        ("http://a.example:x/", "is not valid"),
        (" http://a.example/", "is not valid"),
        ("http://a.example/\r\nx: y", "is not valid"),
        ("ht\ntp://a.example/", "is not valid"),
        ("http://a.example/" + "x" * LONGEST, "is not valid"),
        ("ftp://a.example/?SECRET", "'a.example' is not fetched: its URL is neither http nor https"),
        ("file://a.example/", "neither http nor https"),
        ("http://SECRET:SECRET@a.example/", "contains a user or a password"),
        ("http://@a.example/", "contains a user or a password"),
        ("http://a.example:22/?SECRET", "port 22 is not one of 80, 443, 8080, 8443"),
        ("http://a.example:0/", "port 0 is not one of"),
    ],
)
def test_what_is_no_good_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(ClientError, match=r"an image|the image") as error:
        parse_image_address(url, ())
    assert error.value.code == "image_url_refused"
    assert why in error.value.message
    assert "SECRET" not in error.value.message


def test_only_listed_hosts_where_there_is_a_list() -> None:
    hosts = ("a.example", "*.b.example")
    for host in ("a.example", "A.EXAMPLE.", "x.b.example", "y.x.b.example"):
        assert parse_image_address(f"http://{host}/", hosts).host in host.lower()
    for host in ("b.example", "x.a.example", "xb.example", "a.example.evil.example", "1.1.1.1"):
        with pytest.raises(ClientError, match=r"not in \[media\] hosts"):
            parse_image_address(f"http://{host}/", hosts)


@given(st.text() | st.text().map("http://".__add__) | st.text().map("http://a.example/".__add__), st.text())
def test_any_text_is_a_site_or_a_refusal(url: str, moved: str) -> None:
    for text, origin in ((url, None), (moved, parse_image_address("https://a.example/x", ()))):
        try:
            found = parse_image_address(text, (), origin)
        except ClientError:
            continue
        assert found.address().isascii()
        assert not set(found.address()) & set(" \r\n\t\x00")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
HERE = "127.0.0.1"
ON = Media(fetch=True, max_bytes=1000, timeout=5.0)


def reply(body: bytes = PNG, head: str = "content-type: image/png", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def moved(to: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Found\r\nlocation: {to}\r\n\r\n".encode()


@dataclass
class Server:
    """Answers each request with the next of `replies`, the last one again and again; closes then."""

    replies: list[Any] = field(default_factory=lambda: [reply()])
    heads: list[bytes] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    open: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            self.asked.set()
            say = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if callable(say):
                await say(reader, writer)
            else:
                writer.write(say)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self.open -= 1
            if not self.open:
                self.gone.set()


@contextlib.asynccontextmanager
async def listening(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port, which images may come from meanwhile."""
    listener = await asyncio.start_server(answer, HERE, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    public_fetcher.PORTS.add(port)
    try:
        async with asyncio.timeout(20):
            yield port
    finally:
        public_fetcher.PORTS.discard(port)
        listener.close()
        await listener.wait_closed()


@contextlib.asynccontextmanager
async def serving(*replies: Any, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """When it ends, every connection has ended."""
    server = Server(list(replies) or [reply()])
    async with listening(server, tls) as server.port:
        yield server
        if server.heads:
            await server.gone.wait()


class Names:
    """A resolver: each name's answers, one after the other."""

    def __init__(self, **known: list[list[str]]) -> None:
        self.known = known
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.known.get(host.partition(".")[0], [[HERE]])
        return answers.pop(0) if len(answers) > 1 else answers[0]


def pictures(policy: Media = ON, names: Callable[[str, int], Awaitable[list[str]]] | None = None) -> ImageFetcher:
    """Loopback is as good as public here, but only the one address."""
    return ImageFetcher(policy, names or Names(), lambda address: address == HERE or is_public(address))


async def failure(work: Awaitable[object]) -> tuple[str, str]:
    """(code, message) of the error that it ends in; the message never holds the query."""
    with pytest.raises(ClientError) as error:
        await work
    assert error.value.status == 400
    assert "SECRET" not in error.value.message
    return error.value.code, error.value.message


def run(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def played() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    played.__name__, played.__doc__ = test.__name__, test.__doc__
    return played


# -- what comes ---------------------------------------------------------------------------------------------------


@run
async def test_an_image_is_fetched_without_anything_of_the_client() -> None:
    async with serving() as server:
        got = await pictures().fetch(f"http://img.example:{server.port}/a%20b/ü.png?key=1#part")
        assert got == ("image/png", base64.b64encode(PNG).decode())
        assert server.heads == [
            b"GET /a%%20b/%%C3%%BC.png?key=1 HTTP/1.1\r\nhost: img.example:%d\r\nuser-agent: stoker\r\n"
            b"accept: image/*\r\naccept-encoding: identity\r\nconnection: close\r\n\r\n" % server.port
        ]


@run
async def test_what_it_is_called_does_not_count() -> None:
    async with serving(reply(head="content-type: text/html"), reply(b"<html>no image</html>")) as server:
        url = f"http://img.example:{server.port}/?SECRET"
        assert (await pictures().fetch(url))[0] == "image/png"
        code, message = await failure(pictures().fetch(url))
        assert (code, message) == (
            "image_unavailable",
            "the image at 'img.example' could not be fetched: it is not a PNG, JPEG, GIF, WebP or BMP image",
        )


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + PNG,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n48\r\n" + PNG + b"\r\n0\r\nlocation: x\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nlocation: /x\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + PNG,
        b"HTTP/1.1 200 OK\r\ncontent-length: 72\r\n\r\n" + PNG + b"and more that nobody wants",
        b"HTTP/1.1 200 OK\r\ncontent-length: 72\r\n\r\n" + PNG + moved("/x") + reply(b"other"),
    ],
)
def test_every_way_to_end_an_answer(said: bytes) -> None:
    async def test() -> None:
        async with serving(said) as server:
            got = await pictures().fetch(f"http://img.example:{server.port}/")
            assert got == ("image/png", base64.b64encode(PNG).decode())

    asyncio.run(test())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (reply(b"", status="404 Not Found"), "it answered HTTP 404"),
        (reply(b"", status="206 Partial Content"), "it answered HTTP 206"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "it answered HTTP 302"),
        (b"", "the connection ended before the answer did"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n" + PNG, "the connection ended before the answer did"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "the connection ended before the answer did"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "the head of the answer is too large"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "the head of the answer is too large"),
        (reply(PNG + bytes(1000)), "it is larger than 1000 bytes"),
        (reply(b"\x1f\x8b" + bytes(50), head="content-encoding: gzip"), "it is not a PNG"),
        (reply(b"%PDF-1.7" + bytes(50)), "it is not a PNG"),
        (reply(b""), "it is not a PNG"),
    ],
)
def test_what_is_no_whole_image_is_unavailable(said: bytes, why: str) -> None:
    async def test() -> None:
        async with serving(said) as server:
            code, message = await failure(pictures().fetch(f"http://img.example:{server.port}/?SECRET"))
            assert code == "image_unavailable"
            assert message.startswith(f"the image at 'img.example' could not be fetched: {why}")

    asyncio.run(test())


@pytest.mark.parametrize(
    "head", [b"content-length: 10", b"content-length: 99999999999", b"", b"transfer-encoding: chunked"]
)
def test_size_is_counted_not_believed(head: bytes) -> None:
    """Endless data ends with the bound; a length that says less ends the answer there."""
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n" + (head + b"\r\n" if head else b"") + b"\r\n")
        data = PNG + bytes(4096 - len(PNG))
        piece = b"1000\r\n" + data + b"\r\n" if b"chunked" in head else data
        while sent < 100_000_000:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async def test() -> None:
        async with serving(pour) as server:
            fetching = pictures(replace(ON, max_bytes=100_000)).fetch(f"http://img.example:{server.port}/")
            if head == b"content-length: 10":
                assert await fetching == ("image/png", base64.b64encode(PNG[:10]).decode())
            else:
                _, message = await failure(fetching)
                assert message.endswith("it is larger than 100000 bytes")
        assert sent < 100_000_000

    asyncio.run(test())


@run
async def test_a_drip_ends_by_the_time_for_all_of_it() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + PNG)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with serving(drip) as server:
        started = asyncio.get_running_loop().time()
        fetching = pictures(replace(ON, timeout=0.2)).fetch(f"http://img.example:{server.port}/?SECRET")
        assert await failure(fetching) == (
            "image_unavailable",
            "the image at 'img.example' could not be fetched: it did not arrive within 0.2 s",
        )
        assert asyncio.get_running_loop().time() - started < 3


@run
async def test_a_connection_that_breaks_is_told() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
        writer.transport.abort()

    async with serving(cut) as server:
        _, message = await failure(pictures().fetch(f"http://img.example:{server.port}/"))
        assert message.endswith("the connection broke")


# -- where it goes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.2", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1", "0.0.0.0", "::1"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_name_with_one_address_inside_is_refused(address: str, place: int) -> None:
    async def test() -> None:
        async with serving() as server:
            found = [HERE]
            found.insert(place, address)
            fetching = pictures(names=Names(img=[found])).fetch(f"http://img.example:{server.port}/?SECRET")
            assert await failure(fetching) == (
                "image_url_refused",
                "the image at 'img.example' is not fetched: it is not a host on the public internet",
            )
            assert server.heads == []

    asyncio.run(test())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "127.1", "0x7f.0.0.1", "0"])
def test_loopback_is_refused_however_it_is_written(host: str) -> None:
    async def test() -> None:
        async with serving() as server:
            code, message = await failure(ImageFetcher(ON).fetch(f"http://{host}:{server.port}/"))
            if code != "image_unavailable" or "cannot be resolved" not in message:  # not every resolver knows them all
                assert (code, message.endswith("not a host on the public internet")) == ("image_url_refused", True)
            assert server.heads == []

    asyncio.run(test())


@run
async def test_a_name_is_resolved_once_and_the_connection_goes_there() -> None:
    """Rebinding: whoever asked a second time would be sent inside."""
    names = Names(img=[[HERE], ["127.0.0.2"]])
    async with serving() as server:
        got = await pictures(names=names).fetch(f"http://img.example:{server.port}/")
        assert got[0] == "image/png"
        assert names.asked == ["img.example"]
        assert (await failure(pictures(names=names).fetch(f"http://img.example:{server.port}/")))[
            0
        ] == "image_url_refused"
        assert len(server.heads) == 1


@run
async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async with serving() as server:
        always = ImageFetcher(ON, Names(img=[["127.0.0.3", HERE]]), lambda address: True)
        assert (await always.fetch(f"http://img.example:{server.port}/"))[0] == "image/png"
        dead = ImageFetcher(ON, Names(img=[["127.0.0.3"]]), lambda address: True)
        _, message = await failure(dead.fetch(f"http://img.example:{server.port}/?SECRET"))
        assert message.endswith("it cannot be reached")
        nowhere = ImageFetcher(ON, Names(img=[[]]), lambda address: True)
        _, message = await failure(nowhere.fetch(f"http://img.example:{server.port}/?SECRET"))
        assert message.endswith("its name has no address")


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("label too long")])
def test_a_name_that_nobody_knows(error: Exception) -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise error

    code, message = asyncio.run(failure(pictures(names=unknown).fetch("http://img.example/?SECRET")))
    assert (code, message.endswith("its name cannot be resolved")) == ("image_unavailable", True)


@run
async def test_the_systems_resolver_gives_network_addresses() -> None:
    assert await resolve("127.0.0.1", 80) == ["127.0.0.1"]
    with pytest.raises((OSError, UnicodeError)):
        await resolve("x" * 64 + ".invalid", 80)


@run
async def test_a_policy_decides_before_anything_is_asked() -> None:
    names = Names()
    url = "http://img.example/?SECRET"
    for policy, expected in (
        (Media(), "addresses of images are not fetched here"),
        (replace(ON, hosts=("other.example",)), "the host is not in [media] hosts"),
    ):
        code, message = await failure(pictures(policy, names).fetch(url))
        assert code == "image_url_refused"
        assert expected in message
    assert names.asked == []


# -- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(status: int) -> None:
    async def test() -> None:
        async with serving(moved("/b?c", status), reply()) as server:
            assert (await pictures().fetch(f"http://img.example:{server.port}/a/b"))[0] == "image/png"
            assert server.heads[1].startswith(b"GET /b?c HTTP/1.1\r\n")

    asyncio.run(test())


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://inside.example:{port}/?SECRET", "'inside.example' is not fetched: it is not a host on the public"),
        ("//inside.example:{port}/", "it is not a host on the public internet"),
        ("http://169.254.169.254/latest/", "'169.254.169.254' is not fetched: it is not a host on the public"),
        ("http://evil.test:{port}/", "the host is not in [media] hosts"),
        ("http://SECRET:x@img.example/", "contains a user or a password"),
        ("http://img.example:22/", "port 22 is not one of"),
        ("file:///etc/passwd", "is not valid"),
        ("gopher://img.example/", "neither http nor https"),
        ("http://[", "is not valid"),
    ],
)
def test_a_redirect_is_checked_like_the_first_address(to: str, why: str) -> None:
    async def test() -> None:
        async with serving() as server:
            server.replies[:] = [moved(to.format(port=server.port)), reply()]
            names = Names(inside=[["10.0.0.1"]], **{"169": [["169.254.169.254"]]})
            policy = replace(ON, hosts=("*.example", "169.254.169.254"))
            code, message = await failure(pictures(policy, names).fetch(f"http://img.example:{server.port}/?SECRET"))
            assert code == "image_url_refused"
            assert why in message
            assert len(server.heads) == 1

    asyncio.run(test())


@run
async def test_a_redirect_to_a_name_that_was_public_is_resolved_anew() -> None:
    async with serving(moved("/again")) as server:
        names = Names(img=[[HERE], ["10.0.0.1"]])
        code, _ = await failure(pictures(names=names).fetch(f"http://img.example:{server.port}/"))
        assert code == "image_url_refused"
        assert len(server.heads) == 1


@run
async def test_a_circle_of_redirects_ends() -> None:
    async with serving(moved("/?SECRET")) as server:
        _, message = await failure(pictures().fetch(f"http://img.example:{server.port}/?SECRET"))
        assert message.endswith("it redirects more than 3 times")
        assert len(server.heads) == 4


# -- several, and leaving -----------------------------------------------------------------------------------------


@run
async def test_several_are_fetched_together_and_each_once() -> None:
    ready = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.open == 2:
            ready.set()
        await ready.wait()
        writer.write(reply())

    async with serving(wait) as server:
        a, b = (f"http://img.example:{server.port}/{name}" for name in "ab")
        found = await pictures(replace(ON, max_images=2)).fetch_all([a, b, a])
        assert list(found) == [a, b]
        assert found[a][0] == "image/png"
        assert len(server.heads) == 2


@run
async def test_too_many_are_refused_before_any_is_fetched() -> None:
    names = Names()
    fetching = pictures(replace(ON, max_images=2), names).fetch_all(f"http://img.example/{n}?SECRET" for n in range(3))
    code, message = await failure(fetching)
    assert code == "image_url_refused"
    assert message == "the request has 3 image URLs; the limit is 2 ([media] max_images): send the others as data: URLs"
    assert names.asked == []


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@run
async def test_the_first_failure_ends_the_others() -> None:
    async with serving(hang) as server:

        async def names(host: str, port: int) -> list[str]:
            if host == "bad.example":
                await server.asked.wait()
                raise OSError
            return [HERE]

        urls = [f"http://{host}.example:{server.port}/" for host in ("img", "bad")]
        _, message = await failure(pictures(names=names).fetch_all(urls))
        assert message.startswith("the image at 'bad.example'")
        await server.gone.wait()


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n\r\n" + PNG])
def test_whoever_leaves_closes_the_connections(begun: bytes) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await hang(reader, writer)

    async def test() -> None:
        async with serving(begin) as server, asyncio.TaskGroup() as group:
            task = group.create_task(pictures().fetch_all([f"http://img.example:{server.port}/"]))
            await server.asked.wait()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
            await server.gone.wait()

    asyncio.run(test())


@run
async def test_whoever_leaves_in_the_handshake_closes_the_connection() -> None:
    greeted, gone = asyncio.Event(), asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        greeted.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        gone.set()
        writer.close()

    async with listening(mute) as port, asyncio.TaskGroup() as group:
        task = group.create_task(pictures().fetch(f"https://img.example:{port}/"))
        await greeted.wait()
        task.cancel()
        await gone.wait()


# -- TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of img.example in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not on PATH")
    path = tmp_path_factory.mktemp("tls") / "img.pem"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=img.example"
    extension = ["-addext", "subjectAltName=DNS:img.example", "-keyout", path, "-out", f"{path}.crt"]
    subprocess.run([*command.split(), *extension], check=True, capture_output=True)
    with path.open("a") as file:
        file.write(Path(f"{path}.crt").read_text())
    return path


def test_tls_is_verified_against_the_name(certificate: Path) -> None:
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def test() -> None:
        async with serving(tls=ours) as server:
            url = f"https://img.example:{server.port}/"
            at_home = ImageFetcher(ON, Names(), lambda address: True, trusting)
            assert (await at_home.fetch(url))[0] == "image/png"
            for stranger, there in ((at_home, url.replace("img", "other")), (pictures(), url)):
                _, message = await failure(stranger.fetch(there))
                assert message.endswith("no valid TLS connection to it could be made")
            assert len(server.heads) == 1

    asyncio.run(test())
