"""The command line of scripts/docs-site."""

from __future__ import annotations

import argparse
import functools
import http.server
import subprocess
import sys
from pathlib import Path

from scripts.docs_site import archive, build, check, diagrams, source, versions

from stoker import __version__

OUT = source.ROOT / "build" / "docs-site"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/docs-site", description="Build the documentation as a web site.")
    parser.add_argument("--version", default=__version__, help="which version it is; default: this one (%(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder; other versions in it stay (%(default)s)")
    parser.add_argument("--check", action="store_true", help="build, and check each link, anchor and resource")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="also write the version as FILE, for a package")
    parser.add_argument("--serve", action="store_true", help="then serve the folder, until Ctrl-C")
    parser.add_argument("--port", type=int, default=8001, help="where to serve it (%(default)s)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if not versions.is_version(given.version):
        print(f"{given.version!r} is no version: give one like 0.2.0", file=sys.stderr)
        return 2
    site = given.out / given.version
    try:
        build.build(given.version, site)
        known = versions.write(given.out)
        print(f"built {site} ({sum(1 for _ in site.rglob('*.html'))} pages); versions: {', '.join(known)}")
        if wrong := list(check.problems(site, given.version)) if given.check else []:
            print("\n".join(wrong), file=sys.stderr)
            return 1
        if given.archive:
            print(f"wrote {given.archive}, {archive.write(site, given.archive):,} bytes")
    except (
        build.BuildFailed, source.BrokenLink, diagrams.DamagedPackage, archive.TooLarge, OSError,
        subprocess.CalledProcessError,
    ) as error:  # fmt: skip
        print(f"scripts/docs-site: {error}", file=sys.stderr)
        return 1
    if given.serve:
        serve(given.out, given.port)
    return 0


def serve(folder: Path, port: int) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    sys.exit(main())
