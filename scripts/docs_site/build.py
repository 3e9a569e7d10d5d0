"""The site of one version: the generator runs on the source, then nothing in the result asks another host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from scripts.docs_site import diagrams, source
from scripts.docs_site.tools import generator

ELSEWHERE = re.compile(r'"https://(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)/[^"]*"')
TEMPLATES = re.compile(r"`https://(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)/[^`]*`")
MERMAID = re.compile(r'"https://unpkg\.com/mermaid@[^"]*"')
OWN_MERMAID = 'String(new URL("assets/javascripts/mermaid.js",__md_scope))'


class BuildFailed(Exception):
    """The generator refused the pages; its words."""


def build(version: str, folder: Path) -> None:
    """Make `folder` anew: the site of this version. Raises BuildFailed, source.BrokenLink, OSError."""
    with tempfile.TemporaryDirectory(prefix="stoker-docs-") as scratch:
        project = Path(scratch)
        source.write(project / "docs")
        (project / "zensical.toml").write_text(as_toml({"project": _project(version)}), encoding="utf-8")
        run = [str(generator()), "build", "--strict", "--config-file", str(project / "zensical.toml")]
        done = subprocess.run(
            run,
            cwd=project,
            env={"NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildFailed(_readable(done.stdout + done.stderr))
        keep_to_itself(project / "site")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(project / "site", folder)


def _project(version: str) -> dict[str, Any]:
    given = source.settings()
    return {
        "site_name": "Stoker",
        "site_description": "One stable endpoint for the language models that you run yourself.",
        "copyright": f"Stoker {version}. Apache-2.0.",
        "docs_dir": "docs",
        "site_dir": "site",
        **given,
    }


def keep_to_itself(site: Path) -> None:
    """The theme's script would load libraries from public hosts: that of diagrams is put beside it instead."""
    scripts = site / "assets" / "javascripts"
    for name, content in diagrams.files().items():
        (scripts / name).write_bytes(content)
    [bundle] = scripts.glob("bundle.*.js")
    text = bundle.read_text(encoding="utf-8")
    if not MERMAID.search(text):
        raise BuildFailed(f"{bundle.name} does not load Mermaid as expected: see scripts/docs_site/build.py")
    text = TEMPLATES.sub('""', ELSEWHERE.sub('""', MERMAID.sub(OWN_MERMAID, text)))
    bundle.write_text(text, encoding="utf-8")
    (site / "sitemap.xml").unlink(missing_ok=True)  # of addresses that are not known when it is built


def as_toml(document: dict[str, Any]) -> str:
    """A document with tables and lists as TOML: each value inline, since JSON but for `:` is."""
    return "".join(
        f"[{table}]\n" + "".join(f"{key} = {_inline(value)}\n" for key, value in content.items())
        for table, content in document.items()
    )


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def _readable(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).split("Traceback")[0].strip()
