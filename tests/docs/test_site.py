"""The documentation as a web site: what its source, its checks, its versions and its archive hold.

The whole site is built and checked by `scripts/docs-site --check`, which installs its generator.
"""

from __future__ import annotations

import json
import lzma
import tarfile
import tomllib
from pathlib import Path

import pytest
from scripts import docs_links
from scripts.docs_site import archive, build, check, source, versions

PAGE = '<html><body><article><h1 id="top">T</h1>{0}</article><footer>Stoker 0.2.0</footer></body></html>'


def test_every_link_of_the_source_leads_to_a_file_of_the_source(tmp_path: Path) -> None:
    pages = source.write(tmp_path)
    assert {"index.md", "changelog.md", "guides/share.md", "bench/README.md", "pictures/web-overview.png"} <= set(pages)
    found = [one for page in sorted(tmp_path.rglob("*.md")) for one in docs_links.problems(page, tmp_path)]
    assert found == []


def test_the_pages_in_git_are_not_changed_and_code_is_left_as_it_is(tmp_path: Path) -> None:
    text = "1. a\n   - b\n\n```sh\n  [x](docs/y.md)\n```\n"
    assert source.indented(text) == "1. a\n    - b\n\n```sh\n  [x](docs/y.md)\n```\n"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("text:\n- a\n- b", "text:\n\n- a\n- b"),
        ("- a\n  more:\n    1. b\n    2. c", "- a\n    more:\n\n    1. b\n    2. c"),
        ("- a\n  goes on\n- b", "- a\n    goes on\n- b"),
        ("- a\n\n  more\n- b", "- a\n\n    more\n\n- b"),
        ("```\ntext\n- a\n```", "```\ntext\n- a\n```"),
    ],
)
def test_a_list_is_written_so_that_the_generator_reads_the_same_one(text: str, made: str) -> None:
    assert source.indented(text) == made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "0.2.0" / "guide").mkdir(parents=True)
    (tmp_path / "0.2.0" / "index.html").write_text(PAGE.format('<a href="guide/#top">g</a>'))
    (tmp_path / "0.2.0" / "guide" / "index.html").write_text(PAGE.format('<a href="../">up</a>'))
    return tmp_path / "0.2.0"


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ('<a href="../none/">', "link to ../none/, which is not there"),
        ('<a href="../#none">', "link to ../#none, an anchor that is not there"),
        ('<a href="../../">', "link to ../../, which is not there"),
        ('<img src="none.png">', "link to none.png, which is not there"),
        ('<script src="https://cdn.example/a.js"></script>', "loads https://cdn.example/a.js from another host"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "loads //fonts.example/a.css from another host"),
        ('<a href="https://example.com/">', None),
    ],
)
def test_what_is_wrong_with_a_built_page_is_told(site: Path, added: str, told: str | None) -> None:
    (site / "guide" / "index.html").write_text(PAGE.format(added))
    assert list(check.of_pages(site, "0.2.0")) == ([f"guide/index.html: {told}"] if told else [])


def test_a_page_without_its_version_and_a_style_sheet_that_asks_another_host_are_told(site: Path) -> None:
    (site / "a.css").write_text("@font-face { src: url(https://fonts.example/a.woff) }")
    told = list(check.of_pages(site, "0.3.0"))
    assert "index.html: does not tell the version" in told
    assert "a.css: asks another host: url(https://fonts.example/a.woff)" in told


def test_latest_leads_to_the_newest_version_that_is_no_pre_release(site: Path) -> None:
    out = site.parent
    for version in ("0.10.0", "0.11.0rc1"):
        (out / version).mkdir()
        (out / version / "index.html").write_text(PAGE.format(""))
    assert versions.write(out) == ["0.11.0rc1", "0.10.0", "0.2.0"]
    listed = json.loads((out / "versions.json").read_text())
    assert [one["version"] for one in listed if one["aliases"] == ["latest"]] == ["0.10.0"]
    assert "url=../0.10.0/" in (out / "latest" / "index.html").read_text()
    assert not (out / "latest" / "guide").exists(), "the newest version has no such page"
    assert "url=latest/" in (out / "index.html").read_text()


def test_the_archive_has_the_same_bytes_each_time_and_a_largest_size(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = archive.write(site, tmp_path / "one.tar.xz")
    (site / "index.html").touch()
    archive.write(site, tmp_path / "two.tar.xz")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()
    with lzma.open(tmp_path / "one.tar.xz") as packed, tarfile.open(fileobj=packed) as files:
        assert files.getnames() == ["guide/index.html", "index.html"]
    monkeypatch.setattr(archive, "LARGEST", size - 1)
    with pytest.raises(archive.TooLarge):
        archive.write(site, tmp_path / "three.tar.xz")
    assert not (tmp_path / "three.tar.xz").exists()


def test_the_settings_of_the_generator_are_read_back_as_they_were() -> None:
    given = {"site_name": 'a "b"', **source.settings()}
    assert tomllib.loads(build.as_toml({"project": given})) == {"project": given}
