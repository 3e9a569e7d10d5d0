"""A file over HTTP from a server that drops, lies, changes its mind and sends elsewhere: whole and verified, or not."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.weights.vault import Vault, sha256
from tests.fleet.weights.web import Web

from stoker.domain.errors import StartFailed
from stoker.fleet.weights import http_download
from stoker.fleet.weights.copying import CopyStopped, DraftUnwritable, SourceUnreadable, in_thread
from stoker.fleet.weights.sources import parse

CONTENT = os.urandom(200_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two tries, small pieces, no proxy of this machine."""
    monkeypatch.setattr(http_download, "PAUSE", 0.0)
    monkeypatch.setattr(http_download, "CHUNK", 1000)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    web.files["/m.gguf"] = CONTENT
    yield web
    web.close()


def fetch(vault: Vault, web: Web, path: str = "/m.gguf", is_proved: bool = False) -> tuple[str, list[int]]:
    told: list[int] = []
    source = parse(web.url + path)
    return http_download.fetch(source, vault.path / "d", is_proved, threading.Event(), told.append), told


def refusal(vault: Vault, web: Web, path: str = "/m.gguf") -> str:
    with pytest.raises(SourceUnreadable) as failed:
        fetch(vault, web, path)
    return str(failed.value)


def draft(vault: Vault) -> bytes:
    return (vault.path / "d").read_bytes()


def leave(vault: Vault, web: Web, kept: int, content: bytes = CONTENT, path: str = "/m.gguf", **note: object) -> None:
    """As a killed program leaves it."""
    (vault.path / "d").write_bytes(content[:kept])
    described = {"source": str(parse(web.url + path)), "size": len(CONTENT), "etag": '"one"', "modified": "", **note}
    (vault.path / "d.from").write_text(json.dumps(described))


# -- whole -------------------------------------------------------------------------------------------------------------


def test_a_file_comes_whole_with_its_hash_and_progress(vault: Vault, web: Web) -> None:
    digest, told = fetch(vault, web)
    assert digest == sha256(CONTENT)
    assert draft(vault) == CONTENT
    assert (told[0], told[-1]) == (0, len(CONTENT))
    assert web.asked == [("/m.gguf", "")]
    assert web.seen[0]["accept-encoding"] == "identity"
    assert "authorization" not in web.seen[0]


@pytest.mark.parametrize("path", ["/m.gguf", "/m.gguf?sign=marker"])
def test_a_serve_whose_source_is_an_address_gets_its_weights(vault: Vault, web: Web, path: str) -> None:
    serve = vault.serve(source=web.url + path, sha256={"m.gguf": sha256(CONTENT)})
    asyncio.run(vault.weights().download(serve, vault.told.append))
    assert vault.left() == ["m.gguf"]
    assert {told.total for told in vault.told} == {len(CONTENT)}
    assert "marker" not in (vault.state / "hashes.json").read_text()


def test_a_wrong_hash_leaves_nothing(vault: Vault, web: Web) -> None:
    serve = vault.serve(source=web.url + "/m.gguf", sha256={"m.gguf": "ab" * 32})
    with pytest.raises(StartFailed) as failed:
        asyncio.run(vault.weights().download(serve))
    assert failed.value.code == "hash_mismatch"
    assert vault.left() == []


def test_parts_lie_beside_the_first_one(vault: Vault, web: Web) -> None:
    names = [f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    web.files.update({f"/x/{name}": name.encode() for name in names})
    asyncio.run(vault.weights().download(vault.serve(names[0], source=f"{web.url}/x/{names[0]}")))
    assert vault.left() == names


def test_a_body_in_chunks_has_an_end_that_can_be_told(vault: Vault, web: Web) -> None:
    web.manners.chunked = True
    web.manners.drops = [500, 700]
    web.manners.etag = None
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert len(web.asked) == 3


def test_a_body_without_any_length_is_taken_only_if_its_hash_will_be_compared(vault: Vault, web: Web) -> None:
    web.manners.says_length = False
    assert "sends no length" in refusal(vault, web)
    assert fetch(vault, web, is_proved=True)[0] == sha256(CONTENT)


# -- broken off --------------------------------------------------------------------------------------------------------


def test_a_line_that_breaks_is_gone_on_with_where_it_broke(vault: Vault, web: Web) -> None:
    web.manners.drops = [50_000, 0, 70_000]
    digest, _ = fetch(vault, web)
    assert (digest, draft(vault)) == (sha256(CONTENT), CONTENT)
    assert [span for _, span in web.asked] == ["", "bytes=50000-", "bytes=50000-", "bytes=120000-"]
    assert web.seen[1]["if-range"] == '"one"'


def test_what_an_earlier_program_left_is_gone_on_with_and_hashed_with_the_rest(vault: Vault, web: Web) -> None:
    leave(vault, web, 150_000)
    digest, told = fetch(vault, web)
    assert digest == sha256(CONTENT)
    assert told[0] == 150_000
    assert web.asked == [("/m.gguf", "bytes=150000-")]


def test_a_draft_that_is_complete_costs_one_byte(vault: Vault, web: Web) -> None:
    leave(vault, web, len(CONTENT))
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert web.asked == [("/m.gguf", f"bytes={len(CONTENT) - 1}-")]


@pytest.mark.parametrize("modified", ["", "Sat, 03 Jan 2026 10:00:00 GMT"])
def test_a_file_that_changed_between_two_tries_is_fetched_anew(vault: Vault, web: Web, modified: str) -> None:
    if modified:
        leave(vault, web, 150_000, b"x" * 150_000, etag="", modified="Fri, 02 Jan 2026 10:00:00 GMT")
        web.manners.etag, web.manners.modified = None, modified
    else:
        leave(vault, web, 150_000, b"x" * 150_000, etag='"old"')
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert draft(vault) == CONTENT


@pytest.mark.parametrize(
    ("path", "note"),
    [
        ("/m.gguf", {"etag": ""}),
        ("/m.gguf", {"source": "http://elsewhere/m.gguf"}),
        ("/m.gguf", {"size": 100}),
        ("/m.gguf", {"unknown": 1}),
        ("/m.gguf?file=b", {"etag": "", "modified": "Fri, 02 Jan 2026 10:00:00 GMT"}),
    ],
)
def test_what_nothing_proves_to_be_the_same_is_fetched_anew(
    vault: Vault, web: Web, path: str, note: dict[str, object]
) -> None:
    leave(vault, web, 150_000, b"x" * 150_000, path, **note)
    assert fetch(vault, web, path)[0] == sha256(CONTENT)
    assert web.asked == [(path, "")]


def test_a_weak_tag_proves_nothing(vault: Vault, web: Web) -> None:
    web.manners.etag = 'W/"one"'
    web.manners.drops = [50_000]
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert [span for _, span in web.asked] == ["", ""]


def test_a_server_without_ranges_sends_it_all_again(vault: Vault, web: Web) -> None:
    web.manners.ranges = False
    web.manners.drops = [50_000]
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert draft(vault) == CONTENT


def test_a_draft_that_is_longer_than_the_file_is_not_gone_on_with(vault: Vault, web: Web) -> None:
    leave(vault, web, len(CONTENT), size=None)
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert [span for _, span in web.asked] == [f"bytes={len(CONTENT)}-", ""]


def test_a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not(vault: Vault, web: Web) -> None:
    web.manners.statuses = [503, 429, 500]
    assert fetch(vault, web)[0] == sha256(CONTENT)
    web.manners.statuses = [403]
    assert refusal(vault, web) == "the server answers 403 Forbidden"
    assert len(web.asked) == 5


# -- lies --------------------------------------------------------------------------------------------------------------


def test_a_length_that_is_too_long_ends_after_some_tries_and_keeps_what_came(vault: Vault, web: Web) -> None:
    web.manners.length = len(CONTENT) + 1000
    web.manners.ranges = False
    assert refusal(vault, web) == "the connection ended after 200,000 of 201,000 bytes, 5 times in a row"
    assert len(web.asked) == http_download.TRIES
    assert draft(vault) == CONTENT


def test_a_length_that_is_too_short_is_caught_by_the_hash(vault: Vault, web: Web) -> None:
    web.manners.length = 1000
    serve = vault.serve(source=web.url + "/m.gguf", sha256={"m.gguf": sha256(CONTENT)})
    web.manners.ranges = False
    with pytest.raises(StartFailed) as failed:
        asyncio.run(vault.weights().download(serve))
    assert failed.value.code == "hash_mismatch"
    assert vault.left() == []


@pytest.mark.parametrize("span", ["bytes 0-149999/200000", "bytes 150000-199999/300000"])
def test_another_part_than_was_asked_for_is_never_appended(vault: Vault, web: Web, span: str) -> None:
    leave(vault, web, 150_000)
    web.manners.span = span
    assert fetch(vault, web)[0] == sha256(CONTENT)
    assert [asked for _, asked in web.asked] == ["bytes=150000-", ""]


def test_a_part_that_does_not_say_which_it_is_is_refused(vault: Vault, web: Web) -> None:
    leave(vault, web, 150_000)
    web.manners.span = "bytes"
    assert refusal(vault, web) == "the server sends a range without saying which"


def test_more_than_there_is_is_refused(vault: Vault, web: Web) -> None:
    leave(vault, web, 150_000)
    web.manners.chunked, web.manners.extra = True, b"more"
    assert refusal(vault, web) == "the server sends more than the 200,000 bytes that it announced"


def test_a_compressed_body_is_refused(vault: Vault, web: Web) -> None:
    web.manners.headers["content-encoding"] = "gzip"
    assert "sends the file compressed" in refusal(vault, web)


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_redirects_are_followed_and_what_they_add_is_not_named(vault: Vault, web: Web) -> None:
    web.manners.redirects = {"/a": "/b?sign=marker", "/b": f"{web.url}/m.gguf?sign=marker"}
    assert fetch(vault, web, "/a")[0] == sha256(CONTENT)
    assert "marker" not in (vault.path / "d.from").read_text()
    web.files.clear()
    assert refusal(vault, web, "/a") == "the server answers 404 Not Found"


def test_a_circle_of_redirects_ends(vault: Vault, web: Web) -> None:
    web.manners.redirects = {"/a": "/b", "/b": "/a"}
    assert refusal(vault, web, "/a") == "it is redirected more than 5 times, last to 127.0.0.1"
    assert len(web.asked) == 6


@pytest.mark.parametrize("target", ["file:///etc/passwd", "/a", "ftp://x/m", "http://"])
def test_a_redirect_to_nowhere_is_refused(vault: Vault, web: Web, target: str) -> None:
    web.manners.redirects = {"/a": target}
    assert refusal(vault, web, "/a") == "127.0.0.1 redirects without a target (302)"


def test_a_redirect_that_drops_encryption_is_not_followed() -> None:
    class Answer:
        status = 302

        def getheader(self, name: str) -> str:
            return "http://b/m?sign=marker"

    with pytest.raises(SourceUnreadable, match="a redirects to b without encryption") as failed:
        http_download.redirected("https://a/m", Answer())  # type: ignore[arg-type]
    assert "marker" not in str(failed.value)


def test_a_proxy_of_the_environment_is_asked(vault: Vault, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url.replace("//", "//me:p%40w@"))
    monkeypatch.setattr(http_download, "proxy_bypass", lambda host: False)
    web.files["http://models.example/m.gguf"] = CONTENT
    source = parse("http://models.example/m.gguf")
    assert http_download.fetch(source, vault.path / "d", False, threading.Event(), lambda done: None) == sha256(CONTENT)
    assert web.seen[0]["proxy-authorization"] == "Basic bWU6cEB3"
    assert web.seen[0]["host"] == "models.example"


# -- a first look ------------------------------------------------------------------------------------------------------


def test_a_look_tells_size_and_validator_and_takes_no_body(web: Web) -> None:
    stop = threading.Event()
    assert http_download.remote_file(parse(web.url + "/m.gguf"), stop) == http_download.Remote(len(CONTENT), '"one"')
    web.manners.ranges = False
    assert http_download.remote_file(parse(web.url + "/m.gguf"), stop).size == len(CONTENT)
    web.files["/m.gguf"] = b""
    web.manners.ranges = True
    assert http_download.remote_file(parse(web.url + "/m.gguf"), stop).size == 0
    assert web.asked == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("http://127.0.0.1:1/m.gguf", "Connection refused"),
        ("http://no.such.host.invalid/m", "there is no host no.such"),
    ],
)
def test_a_server_that_is_not_there_is_said_at_once(source: str, why: str) -> None:
    with pytest.raises(SourceUnreadable, match=why):
        http_download.remote_file(parse(source), threading.Event())


def test_an_answer_that_is_no_http_is_no_crash(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.manners.headers["x" * 70_000] = "y"
    with pytest.raises(SourceUnreadable, match="cannot be understood"):
        http_download.remote_file(parse(web.url + "/m.gguf"), threading.Event())


# -- given up ----------------------------------------------------------------------------------------------------------


def test_who_gives_up_while_the_server_is_silent_does_not_wait_for_it(vault: Vault, web: Web) -> None:
    web.manners.hold = threading.Event()
    source = parse(web.url + "/m.gguf")

    async def story() -> None:
        told: list[int] = []
        work = in_thread(lambda stop: http_download.fetch(source, vault.path / "d", False, stop, told.append))
        task = asyncio.get_running_loop().create_task(work)
        async with asyncio.timeout(10):
            while not told or told[-1] < len(CONTENT) // 2:
                await asyncio.sleep(0.01)
        task.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(story())
    assert draft(vault) == CONTENT[: len(CONTENT) // 2]
    assert [thread.name for thread in threading.enumerate() if thread.name == "fetch-watch"] == []


def test_giving_up_between_two_tries_stops_it(vault: Vault, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    web.manners.drops = [1000]
    monkeypatch.setattr(http_download, "PAUSE", 60.0)

    def tell(done: int) -> None:
        if done == 1000:
            threading.Timer(0.1, stop.set).start()

    with pytest.raises(CopyStopped):
        http_download.fetch(parse(web.url + "/m.gguf"), vault.path / "d", False, stop, tell)


def test_a_disk_that_is_full_is_told_from_a_broken_line(
    vault: Vault, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(write: object, piece: bytes) -> None:
        raise DraftUnwritable(OSError(28, "No space left on device"))

    monkeypatch.setattr(http_download, "write_all", full)
    with pytest.raises(StartFailed) as failed:
        asyncio.run(vault.weights().download(vault.serve(source=web.url + "/m.gguf")))
    assert failed.value.code == "disk_full"
    assert vault.left() == []


def test_a_draft_that_cannot_be_opened_is_the_disks_fault(vault: Vault, web: Web) -> None:
    (vault.path / "d").mkdir()
    with pytest.raises(DraftUnwritable):
        http_download.fetch(parse(web.url + "/m.gguf"), Path(vault.path / "d"), False, threading.Event(), print)
