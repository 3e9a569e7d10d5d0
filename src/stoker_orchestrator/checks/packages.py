"""Do the packages exist that JavaScript and TypeScript import? Only where the project has `node_modules`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

LANGUAGES = frozenset(("javascript", "js", "jsx", "mjs", "cjs", "node", "typescript", "ts", "mts", "tsx"))
BUILT_IN = frozenset(
    (  # noqa: SIM905
        "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns "
        "domain events fs http http2 https inspector module net os path perf_hooks process punycode querystring "
        "readline repl stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads "
        "zlib "
    ).split()
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_IMPORT = re.compile(
    r"^[ \t]*(?:(?:import|export)\b[^'\"\n;]{0,400}\bfrom[ \t]*|import[ \t]*|\}[ \t]*from[ \t]*"
    r"|(?:const|let|var)\b[^'\"\n;=]{0,400}=[ \t]*require\([ \t]*)(['\"])([^'\"\n]{1,200})\1",
    re.MULTILINE,
)
_NAME = re.compile(r"(?:@[a-z0-9._~-]+/)?[a-z0-9._~-]+", re.IGNORECASE)
_MAX_CONFIG = 256 * 1024


class MissingPackage(NamedTuple):
    line: int
    name: str
    known: tuple[str, ...]


def missing_package(text: str, project: Path) -> MissingPackage | None:
    """The first package that a block imports and that is not installed. Blocks."""
    roots = [parent / "node_modules" for parent in (project, *project.parents)]
    if not roots[0].is_dir() or _has_aliases(project):
        return None
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for found in _IMPORT.finditer(text):
        name = _package(found[2])
        if name is not None and not any((root / name).exists() or _has_types(root, name) for root in roots):
            return MissingPackage(text.count("\n", 0, found.start(2)) + 1, name, _installed(roots[0]))
    return None


def _package(specifier: str) -> str | None:
    """The package that an import names; None: it names a file, an alias, or a module of Node itself."""
    if specifier.startswith((".", "/", "#", "~")) or ":" in specifier:
        return None
    parts = specifier.split("/")
    name = "/".join(parts[:2]) if specifier.startswith("@") else parts[0]
    return None if parts[0] in BUILT_IN or parts[0] == "@" or not _NAME.fullmatch(name) else name


def _has_types(root: Path, name: str) -> bool:
    return (root / "@types" / name.removeprefix("@").replace("/", "__")).exists()


def _has_aliases(project: Path) -> bool:
    """Whether the project gives names of its own to directories: then nothing is sure."""
    for config in ("tsconfig.json", "jsconfig.json", "deno.json", "package.json"):
        try:
            with (project / config).open("rb") as file:
                text = file.read(_MAX_CONFIG)
        except OSError:
            continue
        if any(word in text for word in (b'"paths"', b'"baseUrl"', b'"extends"', b'"workspaces"', b'"imports"')):
            return True
    return any(any(project.glob(pattern)) for pattern in ("vite.config.*", "webpack.config.*", "import_map.json"))


def _installed(root: Path) -> tuple[str, ...]:
    found: list[str] = []
    for one in root.iterdir():
        if one.name.startswith("@"):
            found += [f"{one.name}/{inner.name}" for inner in one.iterdir()]
        elif not one.name.startswith("."):
            found.append(one.name)
    return tuple(found)
