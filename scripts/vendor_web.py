"""Fetch the web page's libraries from npm: `scripts/vendor_web.py` verifies what is there, `--write` fetches it again.

Each package is checked against the hash in `PACKAGES`; imports by name become relative paths, so that no build step and
no import map is needed. What was written is recorded in vendor.json, with versions, licences and hashes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "src" / "stoker" / "gateway" / "web" / "static" / "vendor"
TESTS = ROOT / "tests" / "gateway" / "web" / "vendor"
LICENCES = "licences.js"
REGISTRY = "https://registry.npmjs.org"


class Package(NamedTuple):
    name: str
    version: str
    licence: str
    sha512: str
    """Base64, as npm's lock files have it."""
    files: dict[str, str]
    """What to take, by its path in the package, and the name to give it."""
    folder: Path = WEB


PACKAGES = (
    Package(
        "preact", "11.2.0", "MIT",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js", "LICENSE": "LICENSE.preact"},
    ),
    Package(
        "@preact/signals", "2.11.4", "MIT",
        "Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.mjs": "signals.js", "LICENSE": "LICENSE.signals"},
    ),
    Package(
        "@preact/signals-core", "1.14.5", "MIT",
        "vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {"dist/signals-core.mjs": "signals-core.js", "LICENSE": "LICENSE.signals-core"},
    ),
    Package(
        "htm", "3.1.1", "Apache-2.0",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.mjs": "htm.js", "LICENSE": "LICENSE.htm"},
    ),
    Package(
        "axe-core", "4.14.1", "MPL-2.0",
        "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        {"axe.min.js": "axe.min.js", "LICENSE": "LICENSE.axe-core"},
        TESTS,
    ),
)  # fmt: skip
NAMES = {"preact": "preact.js", "preact/hooks": "hooks.js", "@preact/signals-core": "signals-core.js"}
"""The names that the packages import each other by, and the files that stand for them."""


class DamagedPackage(Exception):
    """What npm sent is not what was recorded."""


def fetch(package: Package) -> dict[str, bytes]:
    """The files of a package by the name to give them. Raises OSError, DamagedPackage."""
    base = package.name.rpartition("/")[2]
    url = f"{REGISTRY}/{package.name}/-/{base}-{package.version}.tgz"
    with urllib.request.urlopen(url, timeout=60) as reply:
        archive = reply.read()
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != package.sha512:
        raise DamagedPackage(f"{url} has another hash than the one recorded in {Path(__file__).name}")
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for path, name in package.files.items():
            member = tar.extractfile(f"package/{path}")
            if member is None:
                raise DamagedPackage(f"{url} has no {path}")
            found[name] = _rewritten(member.read()) if name.endswith(".js") and package.folder == WEB else member.read()
    return found


def _rewritten(script: bytes) -> bytes:
    """Without source maps, and with relative imports."""
    text = script.decode().partition("\n//# sourceMappingURL")[0]
    for name, file in NAMES.items():
        text = text.replace(f'from"{name}"', f'from"./{file}"')
    return text.encode().rstrip() + b"\n"


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for package in PACKAGES:
        if package.folder != folder:
            continue
        files = fetch(package)
        for name, body in files.items():
            (folder / name).write_bytes(body)
        records.append({
            "name": package.name, "version": package.version, "licence": package.licence, "sha512": package.sha512,
            "files": {name: hashlib.sha256(body).hexdigest() for name, body in files.items()},
        })  # fmt: skip
    (folder / "vendor.json").write_text(json.dumps(records, indent=2) + "\n")
    if folder == WEB:
        (folder / LICENCES).write_text(licences(folder))


def licences(folder: Path) -> str:
    """What is recorded of a folder, as a module for the page that shows it."""
    shown = [
        {"name": one["name"], "version": one["version"], "licence": one["licence"],
         "text": "".join((folder / name).read_text() for name in one["files"] if name.startswith("LICENSE"))}
        for one in json.loads((folder / "vendor.json").read_text())
    ]  # fmt: skip
    return f"// Written by scripts/vendor_web.py.\nexport const LICENCES = {json.dumps(shown, indent=1)};\n"


def problems(folder: Path) -> list[str]:
    """What differs from the record; empty: nothing."""
    record = folder / "vendor.json"
    found, known = [], {"vendor.json", LICENCES}
    for package in json.loads(record.read_text()):
        for name, sha256 in package["files"].items():
            known.add(name)
            file = folder / name
            if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
                found.append(f"{file.relative_to(ROOT)} is not what {package['name']} {package['version']} has")
    if folder == WEB and (folder / LICENCES).read_text() != licences(folder):
        found.append(f"{(folder / LICENCES).relative_to(ROOT)} does not show what is recorded")
    found += [f"{one.relative_to(ROOT)} is not recorded" for one in sorted(folder.iterdir()) if one.name not in known]
    return found


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        for folder in (WEB, TESTS):
            write(folder)
    found = [problem for folder in (WEB, TESTS) for problem in problems(folder)]
    print("\n".join(found) or "the libraries of the web page are those recorded")
    if found:
        print("fetch them again: python scripts/vendor_web.py --write")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
