"""Every relative link and anchor of the pages leads somewhere; whatever would not is found."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.docs.commands import ROOT, pages

LINKS: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "docs_links.py"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "other.md").write_text(
        "# A `b` (c): d_e\n\n## Twice\n\n## Twice\n\n## [Linked](x) word\n<a id='own'>\n"
    )
    (tmp_path / "picture.png").write_bytes(b"")
    return tmp_path


def problems(site: Path, text: str) -> list[str]:
    page = site / "page.md"
    page.write_text(text)
    return list(LINKS["problems"](page, site))


def test_the_links_of_the_pages_lead_somewhere() -> None:
    assert [one for page in pages() for one in LINKS["problems"](page, ROOT)] == []


@pytest.mark.parametrize(
    "text",
    [
        "[a](other.md)",
        "[a](other.md#a-b-c-d_e)",
        "[a](other.md#twice) and [b](other.md#twice-1)",
        "[a](other.md#linked-word) [b](other.md#own)",
        "![a](picture.png 'title')",
        "# Here\n[a](#here)",
        "[a](https://example.com/none) [b](mailto:me@example.com)",
        "`[a](none.md)`\n\n```md\n[a](none.md)\n```\n\n~~~\n[a](none.md)\n~~~",
    ],
)
def test_what_leads_somewhere_is_no_problem(site: Path, text: str) -> None:
    assert problems(site, text) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[a](none.md)", "page.md:1: link to none.md, which is not there"),
        ("\n![a](none.png)", "page.md:2: link to none.png, which is not there"),
        ("[a](none.md 'title')", "page.md:1: link to none.md, which is not there"),
        ("[a](<none.md>)", "page.md:1: link to none.md, which is not there"),
        ("[a][1]\n\n[1]: none.md", "page.md:3: link to none.md, which is not there"),
        ("<img alt='' src='none.png'>", "page.md:1: link to none.png, which is not there"),
        ("[a](other.md#none)", "page.md:1: link to other.md#none, a heading that is not there"),
        ("[a](other.md#twice-2)", "page.md:1: link to other.md#twice-2, a heading that is not there"),
        ("```\n# Here\n```\n[a](#here)", "page.md:4: link to #here, a heading that is not there"),
        ("[a](../..)", "page.md:1: link to ../.., which is outside the repository"),
    ],
)
def test_what_leads_nowhere_is_told_with_its_line(site: Path, text: str, what: str) -> None:
    assert problems(site, text) == [what]
