"""Names by which a variable, a field or a header shows that its value is a secret."""

from __future__ import annotations

import re

SECRET_NAME_ENDS = "key|keys|token|secret|password|credentials"
"""How such a name ends, in any case: a part of a regular expression."""
_SECRET_NAME = re.compile(f"({SECRET_NAME_ENDS})$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether what is called so is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None
