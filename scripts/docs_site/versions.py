"""A folder for each version: the list of them, and `latest`, whose pages lead to the newest one.

0.1.0/          the site of a version
0.2.0/
latest/         the same paths; each page leads to the newest version
versions.json   newest first, as the theme's menu reads it
index.html      leads to latest
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from packaging.version import InvalidVersion, Version

LEADS = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Stoker</title>
<link rel="canonical" href="{to}"><meta http-equiv="refresh" content="0; url={to}">
<script>location.replace("{to}" + location.search + location.hash)</script>
<a href="{to}">Stoker's documentation</a></html>
"""


def write(out: Path) -> list[str]:
    """Write what is beside the folders of the versions. The versions, newest first."""
    found = [folder.name for folder in out.iterdir() if (folder / "index.html").is_file() and is_version(folder.name)]
    found.sort(key=Version, reverse=True)
    newest = next((one for one in found if not Version(one).is_prerelease), found[0])
    listed = [{"version": one, "title": one, "aliases": ["latest"] if one == newest else []} for one in found]
    (out / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (out / "index.html").write_text(LEADS.format(to="latest/"), encoding="utf-8")
    (out / ".nojekyll").touch()
    shutil.rmtree(out / "latest", ignore_errors=True)
    for page in sorted((out / newest).rglob("index.html")):
        folder = page.parent.relative_to(out / newest)
        target = out / "latest" / folder / "index.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(folder.parts) + 1)
        to = f"{up}{newest}/" + "".join(f"{part}/" for part in folder.parts)
        target.write_text(LEADS.format(to=to), encoding="utf-8")
    return found


def is_version(name: str) -> bool:
    """Whether a folder is one of a version."""
    try:
        Version(name)
    except InvalidVersion:
        return False
    return True
