"""`stoker docs`: the documentation of this version, from this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker_setup.commands.docs_search import Hit, PageSection

_HITS = 10


def docs(
    term: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAGE|TERM]", help="A page, or words to search for. Default: the first page."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve it at. 0: any free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; only print the address.")] = False,
    json: options.Json = False,
) -> None:
    """Show the documentation of this version, without a network.

    Serves it to this machine until Ctrl-C. With words, prints the sections that fit best; without a terminal, or with
    --json, that is all.
    """
    from stoker import __version__
    from stoker_setup.commands import docs_load, docs_search
    from stoker_setup.commands.docs_server import DocsServer

    words = " ".join(term or ())
    site = docs_load.load()
    hits = docs_search.find(site.sections, words, _HITS)
    if json:
        return terminal.emit(
            {"version": __version__, "pages": [_document(hit) for hit in hits] or _pages(site.sections)}
        )
    if words and not hits:
        terminal.note(f"stoker: no page has {words!r}; all pages: stoker docs")
        raise typer.Exit(FAILED)
    if words and not terminal.is_live():
        return _show_hits(hits, site.how_to_open)
    try:
        server = DocsServer(site.files, __version__, port)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({error.strerror}): give another one, or none: --port 0"
        ) from None
    with server:
        _show_hits(hits, server.url)
        address = server.url(hits[0].section.location if hits else "")
        terminal.say(f"Stoker {__version__}: {address} (Ctrl-C ends it)")
        if not no_browser:
            _open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            terminal.note("")


def _show_hits(hits: list[Hit], where: Callable[[str], str]) -> None:
    """Where the words are, the best first. `where`: what opens a location."""
    for hit in hits:
        of = f" ({hit.section.page})" if hit.section.page != hit.section.title else ""
        terminal.say(f"{hit.section.title}{of}")
        terminal.say(f"  {where(hit.section.location)}")
        if hit.excerpt:
            terminal.say(f"  {hit.excerpt}")


def _document(hit: Hit) -> dict[str, str]:
    section = hit.section
    return {"location": section.location, "page": section.page, "title": section.title, "excerpt": hit.excerpt}


def _pages(sections: list[PageSection]) -> list[dict[str, str]]:
    return [{"location": one.location, "title": one.title} for one in sections if "#" not in one.location]


def _open(address: str) -> None:
    """Only where there is a screen: on a server a text browser would take the terminal."""
    import sys
    import webbrowser

    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
