"""`[responses]`: the Responses API over WebSocket, and what its clients store."""

from __future__ import annotations

from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Size, SomeDuration


class ResponsesTable(Section):
    """Whether Stoker stores responses, so that requests can continue them by their id. The store holds prompts and
    answers. And whether it speaks the API over WebSocket."""

    store: bool = setting(
        False,
        "Whether to store them in the state directory. Otherwise `previous_response_id`, `conversation` and "
        "the paths of stored responses are refused.",
    )
    websocket: bool = setting(
        True, "Whether `/v1/responses` is a WebSocket, too. Otherwise its handshake is refused with 426."
    )
    max_bytes: Size = setting("1GiB", "Most disk space. The oldest entries of the key that has most are deleted first.")
    keep: SomeDuration = setting("30d", "Time after which a response is deleted, and a conversation that was not used.")
