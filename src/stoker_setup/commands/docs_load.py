"""Where the pages are: in the archive that a release ships, or in a checkout in docs/.

archive    docs.tar.xz beside the program: the web site, made by scripts/docs-site --archive
checkout   docs/*.md, as plain pages without a search box
"""

from __future__ import annotations

from pathlib import Path

import stoker
from stoker_setup.commands.docs_site import NoDocumentation, Site, of_archive

ARCHIVE = Path(stoker.__file__).with_name("docs.tar.xz")
CHECKOUT = Path(stoker.__file__).parents[2] / "docs"


def load() -> Site:
    """Raises NoDocumentation."""
    if ARCHIVE.is_file():
        return of_archive(ARCHIVE)
    if (CHECKOUT / "get-started.md").is_file():
        from stoker_setup.commands.docs_pages import of_folder

        return of_folder(CHECKOUT)
    raise NoDocumentation(
        f"this installation has no documentation: it was not made by scripts/release, and {CHECKOUT} is not there; "
        "install a released version"
    )
