"""Names that are going away. The policy, and the list for users: docs/reference/deprecations.md."""

from __future__ import annotations

from typing import NamedTuple


class NewName(NamedTuple):
    """What stands for an old name that still works."""

    name: str
    gone_in: str
    """The version that no longer knows the old name."""
