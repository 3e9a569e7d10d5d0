"""The refusal of a request without a valid key."""

from __future__ import annotations

from stoker.domain.errors import ClientError


class BadKey(ClientError):
    """No key, or a wrong one. `begins`: its first four characters, for the log; empty: there was none."""

    status = 401
    code = "bad_key"

    def __init__(self, begins: str) -> None:
        what = "is wrong" if begins else "is missing: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
        super().__init__(f"the API key {what}")
        self.begins = begins

    @property
    def reason(self) -> str:
        return "wrong_key" if self.begins else "missing_key"
