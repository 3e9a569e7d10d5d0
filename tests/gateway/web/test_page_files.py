"""The web page's files: nothing but them, never inline code, sent again only when they changed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from stoker.domain.errors import ClientError
from stoker.gateway.web.files import PageFiles

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

import vendor_web

STATIC = Path(vendor_web.WEB).parent
OWN = sorted(STATIC.glob("*.js"))


@pytest.fixture(scope="module")
def page() -> PageFiles:
    return PageFiles()


def test_every_file_is_sent_once_and_then_by_its_etag_alone(page: PageFiles) -> None:
    for path in page.paths:
        first = page.reply(path, {})
        etag = dict(first.headers)[b"etag"]
        again = page.reply(path, {b"if-none-match": b'"x", ' + etag})
        assert (first.status, again.status, again.body) == (200, 304, b"")
        assert dict(again.headers)[b"etag"] == etag


def test_every_file_forbids_inline_code_frames_and_other_origins(page: PageFiles) -> None:
    for path in page.paths:
        headers = dict(page.reply(path, {}).headers)
        policy = dict(part.strip().partition(b" ")[::2] for part in headers[b"content-security-policy"].split(b";"))
        assert policy[b"default-src"] == policy[b"frame-ancestors"] == policy[b"base-uri"] == b"'none'"
        assert policy[b"script-src"] == policy[b"style-src"] == policy[b"connect-src"] == b"'self'"
        assert policy[b"require-trusted-types-for"] == b"'script'"
        assert headers[b"x-content-type-options"] == b"nosniff"


@pytest.mark.parametrize(
    "path", ["/ui/x.js", "/ui/../files.py", "/ui/vendor/", "/ui/vendor/vendor.json", "/ui//page.css", "/ui/static"]
)
def test_nothing_else_is_sent(page: PageFiles, path: str) -> None:
    with pytest.raises(ClientError) as caught:
        page.reply(path, {})
    assert caught.value.status == 404


def test_the_page_has_no_inline_code_and_asks_no_other_host() -> None:
    index = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style|https?://", index)
    for file in OWN:
        text = file.read_text()
        assert not re.search(r"innerHTML|dangerouslySet|document\.write|\beval\(|new Function", text), file.name


def test_every_import_is_a_file_of_the_page() -> None:
    for file in [*OWN, *vendor_web.WEB.glob("*.js")]:
        for found in re.findall(r"""(?:from|import) ?["']([^"']+)["']""", file.read_text()):
            assert found.startswith("./"), f"{file.name} imports {found}"
            assert (file.parent / found).is_file(), f"{file.name} imports {found}"


@pytest.mark.parametrize("folder", [vendor_web.WEB, vendor_web.TESTS], ids=["page", "tests"])
def test_the_libraries_are_those_on_record(folder: Path) -> None:
    assert vendor_web.problems(folder) == []


def test_every_page_of_the_documentation_is_sent_and_nothing_else_of_its_folder(page: PageFiles) -> None:
    docs = Path(vendor_web.WEB).parents[5] / "docs"
    pages = {f"/ui/docs/{file.relative_to(docs).as_posix()}" for file in docs.rglob("*.md")}
    assert pages == {path for path in page.paths if path.startswith("/ui/docs/")}
    reply = page.reply("/ui/docs/guides/web-page.md", {})
    assert (reply.status, dict(reply.headers)[b"content-type"]) == (200, b"text/markdown; charset=utf-8")
    for path in ("/ui/docs/", "/ui/docs/guides", "/ui/docs/pictures/web-keys.png", "/ui/docs/../README.md"):
        with pytest.raises(ClientError):
            page.reply(path, {})


def test_the_page_leads_only_to_pages_of_the_documentation_that_are_there(page: PageFiles) -> None:
    named = {name for file in OWN for name in re.findall(r"#/docs/([\w/-]*)", file.read_text())}
    about = re.search(r"const DOCUMENTS = \[(.*?)\];", (STATIC / "about.js").read_text(), re.S)
    assert about is not None
    named |= set(re.findall(r'\["[^"]+", "([^"]*)"\]', about[1]))
    assert {"guides/web-page", ""} <= named
    assert {f"/ui/docs/{name or 'README'}.md" for name in named} <= set(page.paths)
