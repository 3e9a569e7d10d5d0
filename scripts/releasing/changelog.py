"""CHANGELOG.md in the format of Keep a Changelog: what is wrong with it, one version's notes, a new version."""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
UNRELEASED = "## Unreleased"
_RELEASE = re.compile(r"## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)")


class ReleaseRefused(Exception):
    """Nothing was changed; the message says what to do."""


class Section(NamedTuple):
    """What one version changed."""

    version: str
    """Empty: not released."""
    date: str
    text: str
    """Without its heading."""


def sections(text: str) -> list[Section]:
    """The sections in their order, the newest first. Raises ReleaseRefused for a heading of another form."""
    found = []
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        match = _RELEASE.fullmatch(heading)
        if match is None and heading != UNRELEASED:
            raise ReleaseRefused(f"CHANGELOG.md: heading '{heading}': write '## X.Y.Z - YYYY-MM-DD' or '{UNRELEASED}'")
        found.append(Section(match[1] if match else "", match[2] if match else "", body))
    return found


def problems(text: str) -> list[str]:
    """What is wrong with the format; empty: nothing."""
    try:
        found = sections(text)
    except ReleaseRefused as refusal:
        return [str(refusal)]
    wrong = [] if found and not found[0].version else [f"the first section is not '{UNRELEASED}'"]
    versions = [key(one.version) for one in found if one.version]
    if versions != sorted(set(versions), reverse=True):
        wrong.append("versions do not fall from section to section")
    for section in found:
        name = section.version or "Unreleased"
        kinds = re.findall(r"^### (.*)$", section.text, re.MULTILINE)
        wrong += [f"{name}: '### {kind}' is none of {', '.join(KINDS)}" for kind in kinds if kind not in KINDS]
        wrong += [
            f"{name}: '### {kind}' stands there twice" for kind in sorted({k for k in kinds if kinds.count(k) > 1})
        ]
        loose = section.text.partition("### ")[0].strip()
        wrong += [f"{name}: text before the first '###': {loose[:60]}"] if loose else []
    return [f"CHANGELOG.md: {one}" for one in wrong]


def notes(text: str, version: str) -> str:
    """What `version` changed, for the page of a release. Raises ReleaseRefused if it has no section."""
    for section in sections(text):
        if section.version == version:
            return section.text.strip() + "\n"
    raise ReleaseRefused(f"CHANGELOG.md has no section {version}: type scripts/release bump {version}")


def released(text: str, version: str, day: datetime.date) -> str:
    """The text with what is unreleased under a heading of `version`. Raises ReleaseRefused."""
    if wrong := problems(text):
        raise ReleaseRefused(wrong[0])
    new, *older = sections(text)
    if not new.text.strip():
        raise ReleaseRefused("CHANGELOG.md has nothing under Unreleased: there is nothing to release")
    if older and key(version) <= key(older[0].version):
        raise ReleaseRefused(f"{version} does not follow {older[0].version}, the newest in CHANGELOG.md")
    return text.replace(f"{UNRELEASED}\n", f"{UNRELEASED}\n\n## {version} - {day.isoformat()}\n", 1)


def key(version: str) -> tuple[int, ...]:
    """By which versions are compared. Raises ReleaseRefused for another form than X.Y.Z."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise ReleaseRefused(f"'{version}' is no version: write X.Y.Z")
    return tuple(map(int, version.split(".")))
