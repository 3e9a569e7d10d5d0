"""The bill of materials, CycloneDX: the locked Python packages, the web pages' libraries, and the demo models."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.docs_site import diagrams
from scripts.releasing import contents, version
from scripts.releasing.tools import ROOT, run, tool

LOCK = ROOT / "requirements-run.lock"
VENDOR = ROOT / "src/stoker/gateway/web/static/vendor/vendor.json"
MODELS = ROOT / "src/stoker/models"
BUILD_ONLY = frozenset(("editables", "hatchling", "pathspec", "pluggy", "trove-classifiers"))
"""In the lock because an editable installation needs them; no part of what is installed from a wheel."""
_CHECK = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(str(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()) or "") or 0)
"""


def write(path: Path) -> None:
    """Make the file, and check it against the schema. Raises ReleaseRefused."""
    document = json.loads(_packages())
    root = document["metadata"]["component"]
    root.update(version=version.current(), purl=f"pkg:pypi/stoker@{version.current()}")
    needed = _closure("stoker")
    kept = [one for one in document["components"] if canonicalize_name(one["name"]) not in BUILD_ONLY]
    for one in kept:
        one["scope"] = "required" if canonicalize_name(one["name"]) in needed else "optional"
    more = libraries() + documentation() + models()
    document["components"] = kept + more
    kept_refs = {one["bom-ref"] for one in (root, *kept)}
    edges = [one for one in document.get("dependencies", []) if one["ref"] in kept_refs - {root["bom-ref"]}]
    refs = sorted(one["bom-ref"] for one in document["components"])
    document["dependencies"] = [*edges, {"ref": root["bom-ref"], "dependsOn": refs}]
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    run([tool("python"), "-c", _CHECK, str(path)], shown=False)


def libraries(record: Path = VENDOR) -> list[dict[str, Any]]:
    """The libraries of the web page, from the record of what was fetched."""
    return [
        {
            "type": "library", "bom-ref": f"npm:{one['name']}", "name": one["name"], "version": one["version"],
            "purl": f"pkg:npm/{one['name'].replace('@', '%40')}@{one['version']}", "scope": "required",
            "licenses": [{"license": {"id": one["licence"]}}],
            "hashes": [{"alg": "SHA-512", "content": base64.b64decode(one["sha512"]).hex()}],
            "description": "in stoker/gateway/web/static/vendor: " + ", ".join(sorted(one["files"])),
        }
        for one in json.loads(record.read_text())
    ]  # fmt: skip


def documentation() -> list[dict[str, Any]]:
    """What the pages of the documentation run in a browser: their generator's theme, and the drawer of diagrams."""
    lock = (ROOT / "requirements-docs.lock").read_text()
    theme = next(line.partition("==")[2].split()[0] for line in lock.splitlines() if line.startswith("zensical=="))
    drawer = diagrams.URL.rpartition("-")[2].removesuffix(".tgz")
    found = (
        ("pypi", "zensical", theme, f"pkg:pypi/zensical@{theme}"),
        ("npm", "@mermaid-js/tiny", drawer, f"pkg:npm/%40mermaid-js/tiny@{drawer}"),
    )
    return [
        {
            "type": "library", "bom-ref": f"{source}:{name}", "name": name, "version": number, "purl": purl,
            "scope": "optional", "licenses": [{"license": {"id": "MIT"}}],
            "description": f"in stoker/{contents.DOCUMENTATION}",
        }
        for source, name, number, purl in found
    ]  # fmt: skip


def models(folder: Path = MODELS) -> list[dict[str, Any]]:
    """The demo models."""
    return [
        {
            "type": "machine-learning-model", "bom-ref": f"model:{file.stem}", "name": file.stem, "scope": "required",
            "version": version.current(), "licenses": [{"license": {"id": "Apache-2.0"}}],
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
            "description": f"in stoker/models/{file.name}: trained for Stoker, from its own texts",
        }
        for file in sorted(folder.glob("*.gguf"))
    ]  # fmt: skip


def _packages() -> str:
    command = [tool("cyclonedx-py"), "requirements", "--output-reproducible", "--spec-version", "1.6", "--of", "JSON"]
    epoch = run(["git", "log", "-1", "--format=%ct"], shown=False).strip()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "sbom.json"
        command += ["--pyproject", "pyproject.toml", "-o", str(out), str(LOCK)]
        run(command, environment={"SOURCE_DATE_EPOCH": epoch})
        return out.read_text()


def _closure(name: str) -> set[str]:
    """The packages that `name` always needs, itself included; read from what is installed in .venv."""
    found, new = set(), {str(canonicalize_name(name))}
    while new:
        found |= new
        wanted = [Requirement(text) for one in new for text in metadata.requires(one) or ()]
        names = {
            str(canonicalize_name(one.name))
            for one in wanted
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }
        new = names - found
    return found
