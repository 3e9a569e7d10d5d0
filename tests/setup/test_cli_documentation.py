"""`stoker docs`: pages, search and server, from an archive as a release ships it and from this checkout."""

from __future__ import annotations

import http.client
import io
import json
import lzma
import signal
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.plane import free_port, poll
from tests.scenarios.preloaded import Command

from stoker import __version__
from stoker.cli.main import run
from stoker.domain.build import IS_COMPILED
from stoker_setup.commands import docs_load
from stoker_setup.commands.docs_pages import of_folder
from stoker_setup.commands.docs_search import PageSection, find
from stoker_setup.commands.docs_server import DocsServer
from stoker_setup.commands.docs_site import Site

Captured = pytest.CaptureFixture[str]
ITEMS = [
    {"location": "guides/share/", "title": "Share one <b>Stoker</b>", "text": "<p>Keys &amp; limits</p>", "path": []},
    {"location": "guides/share/#keys", "title": "Keys", "text": "Make keys.", "path": ["Guides", "Share one Stoker"]},
]


def archive(file: Path, files: dict[str, bytes]) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    file.write_bytes(lzma.compress(buffer.getvalue()))
    return file


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This installation has an archive, as a released one."""
    search = json.dumps({"items": ITEMS}).encode()
    files = {"index.html": b"<h1>first</h1>", "guides/share/index.html": b"<h1>share</h1>", "search.json": search}
    file = archive(tmp_path / "docs.tar.xz", files)
    monkeypatch.setattr(docs_load, "ARCHIVE", file)
    return file


@pytest.fixture
def server() -> Iterator[DocsServer]:
    files = {"index.html": b"<h1>first</h1>", "guides/share/index.html": b"<h1>share</h1>", "a.css": b"a {}"}
    with DocsServer(files, "0.2.0", 0) as one:
        threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True).start()
        yield one
        one.shutdown()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Status, type or where it leads to, and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.headers["Location"] or reply.headers["Content-Type"], reply.read()
    finally:
        connection.close()


def test_a_released_one_is_searched_in_its_own_index(released: Path, capsys: Captured) -> None:
    assert run(["docs", "keys", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["location"] for one in told["pages"]] == ["guides/share/#keys", "guides/share/"]
    assert (told["pages"][0]["page"], told["pages"][1]["excerpt"]) == ("Share one Stoker", "Keys & limits")
    assert run(["docs", "--json"]) == 0
    pages = [{"location": "guides/share/", "title": "Share one Stoker"}]
    assert json.loads(capsys.readouterr().out) == {"version": __version__, "pages": pages}


def test_what_opens_a_section_is_printed_and_names_it(released: Path, capsys: Captured) -> None:
    assert run(["docs", "make", "keys"]) == 0
    shown = capsys.readouterr().out.splitlines()[1].strip()
    assert shown == "stoker docs guides/share/#keys"
    assert run([*shown.split()[1:]]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Keys (Share one Stoker)"


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"no tar")])
def test_a_damaged_one_says_what_to_do(released: Path, content: bytes, capsys: Captured) -> None:
    released.write_bytes(content)
    assert run(["docs"]) == 1
    assert "install Stoker again" in capsys.readouterr().err


def test_one_without_pages_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(docs_load, "ARCHIVE", tmp_path / "none")
    monkeypatch.setattr(docs_load, "CHECKOUT", tmp_path)
    assert run(["docs"]) == 1
    assert "install a released version" in capsys.readouterr().err


def test_in_a_checkout_its_pages_are_searched_and_the_named_one_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    checkout = Path(__file__).parents[2] / "docs"
    monkeypatch.setattr(docs_load, "CHECKOUT", checkout)  # a compiled build is in none
    assert run(["docs", "guides/share-a-gpu"]) == 0
    assert capsys.readouterr().out.splitlines()[1].strip() == f"{checkout}/guides/share-a-gpu.md"
    assert run(["docs", "gates"]) == 0
    assert "guides/promote-a-model.md" in capsys.readouterr().out
    assert run(["docs", "xyzzy", "plugh"]) == 1
    assert "all pages: stoker docs" in capsys.readouterr().err


def test_the_pages_of_a_checkout_link_to_each_other(tmp_path: Path) -> None:
    (tmp_path / "guides").mkdir()
    (tmp_path / "README.md").write_text("# All\n\n[share](guides/share.md#keys) ![p](pictures/p.png)\n")
    (tmp_path / "guides" / "share.md").write_text(
        "# Share\n\n[all](../README.md) <b>x</b>\n\n## Keys\n\nMake `keys`.\n"
    )

    site = of_folder(tmp_path)
    assert b'href="guides/share/#keys"' in site.files["index.html"]
    assert b'src="pictures/p.png"' in site.files["index.html"]
    assert b'href="../../"' in site.files["guides/share/index.html"]
    assert b'<h2 id="keys">' in site.files["guides/share/index.html"]
    assert site.sections[-1] == PageSection("guides/share/#keys", "Share", "Keys", "Make keys .")


def found(sections: list[PageSection], words: str) -> list[PageSection]:
    return [hit.section for hit in find(sections, words, 10)]


def test_a_section_with_more_of_the_words_comes_first_and_headings_count_more_than_text() -> None:
    text = PageSection("a/#text", "A", "Text", "a gate here, and a limit")
    title = PageSection("b/#gates", "B", "Gates", "none")
    others = [PageSection(f"c/#{n}", "C", "Others", "of something else") for n in range(5)]
    assert found([text, title, *others], "gates") == [title, text]
    assert found([text, title, *others], "the limit of Text") == [text]
    assert found([title, text, *others], "here is a limit for gates") == [text, title]
    assert found([text, title], "") == []
    assert found([text, title], "xyzzy") == []
    assert len(find([title] * 30, "gates", 10)) == 10


@pytest.mark.parametrize("words", ["limiting", "LIMITS", 'limit"', "limit*", "limit -gate", "NEAR(limit", "page:limit"])
def test_words_count_in_every_form_and_no_sign_has_a_meaning(words: str) -> None:
    section = PageSection("a/#limits", "A", "What limits a key", "title and gates")
    assert found([section], words) == [section]


def test_words_side_by_side_in_a_short_text_come_before_the_same_words_here_and_there() -> None:
    apart = PageSection("a/#long", "A", "Long", "unload what is idle, " + "and more " * 100 + "idle " * 50)
    together = PageSection("b/#short", "B", "Short", "`idle_unload` stops a model")
    assert found([apart, together], "idle unload") == [together, apart]
    assert found([apart, together], "how to do an unload") == [together, apart]


QUESTIONS = {
    "pin a model in memory": {"guides/keep-models-warm"},
    "why did my request wait": {"reference/cli", "reference/decisions", "guides/watch-and-alert"},
    "upgrade without dropping requests": {"guides/upgrade"},
    "small and big model for Claude Code": {"guides/coding-agents"},
    "one model on each GPU": {"guides/several-gpus"},
    "vLLM in Docker": {"guides/compose", "guides/containers"},
    "behind nginx under a path": {"guides/reverse-proxy"},
    "switch off thinking": {"reference/configuration", "reference/engines"},
    "what is stored of prompts": {"guides/security"},
    "limit a key": {"guides/share", "guides/security"},
}
"""Real questions, and the pages that answer them."""


@pytest.fixture(scope="module")
def pages() -> Site:
    """Those of this checkout, read once."""
    return of_folder(Path(__file__).parents[2] / "docs")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page_among_the_first_three(
    question: str, pages: Site, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(docs_load, "load", lambda: pages)
    assert run(["docs", *question.split(), "--json"]) == 0
    first = [one["location"].partition("#")[0].strip("/") for one in json.loads(capsys.readouterr().out)["pages"][:3]]
    assert QUESTIONS[question] & set(first), first


def test_the_pages_are_served_below_their_version_and_nothing_else(server: DocsServer) -> None:
    port = server.server_port
    assert get(port, "/")[:2] == (302, "/0.2.0/")
    assert get(port, "/0.2.0/") == (200, "text/html; charset=utf-8", b"<h1>first</h1>")
    assert get(port, "/0.2.0/guides/share")[:2] == (301, "/0.2.0/guides/share/")
    assert get(port, "/0.2.0/a.css")[1] == "text/css; charset=utf-8"
    assert get(port, "/0.2.0/a.css", "HEAD") == (200, "text/css; charset=utf-8", b"")
    assert json.loads(get(port, "/versions.json")[2])[0]["version"] == "0.2.0"
    for path in ("/etc/passwd", "/0.2.0/../../etc/passwd", "/0.2.0/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/0.2.0"):
        assert get(port, path)[0] in (301, 404), path
    assert get(port, "/0.2.0/", "POST")[0] == 501


@pytest.mark.skipif(IS_COMPILED, reason="a wheel has no documentation unless scripts/release made it")
def test_it_is_served_until_ctrl_c_and_a_taken_port_is_told(tmp_path: Path, capsys: Captured) -> None:
    port = free_port()
    command = Command(("docs", "--no-browser", "--port", str(port)), tmp_path, {"HOME": str(tmp_path), "PATH": ""})
    try:
        poll(lambda: "Ctrl-C" in command.printed(), "the address is printed")
        status, _, page = get(port, f"/{__version__}/get-started/")
        assert (status, b"<h1" in page) == (200, True)
        assert run(["docs", "--port", str(port)]) == 2
        assert f"port {port} cannot be used" in capsys.readouterr().err
    finally:
        command.send_signal(signal.SIGINT)
    assert command.wait(10) == 0
