"""What the design knows and this version does not do yet: a clear word instead of "unknown key".

An entry goes when its feature comes.
"""

from __future__ import annotations

KEYS: dict[tuple[str, str], str] = {}
"""(section, key) to what it is for. The section is the first key of the path, empty at the top."""

DRIVERS = {
    "ray": "start the deployment yourself and give its base_url",
}
"""Value to what to do until then."""
