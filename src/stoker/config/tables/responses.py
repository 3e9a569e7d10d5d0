"""`[responses]`: the Responses API over WebSocket, and what its clients store."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.domain.kinds import Size, SomeDuration, setting


class ResponsesTable(msgspec.Struct, frozen=True):
    """Whether Stoker stores responses, so that requests can continue them by their id. The store holds prompts and
    answers. And whether it speaks the API over WebSocket."""

    store: Annotated[
        bool,
        setting(
            "Whether to store them in the state directory. Otherwise `previous_response_id`, `conversation` and the "
            "paths of stored responses are refused."
        ),
    ] = False
    websocket: Annotated[
        bool, setting("Whether `/v1/responses` is a WebSocket, too. Otherwise its handshake is refused with 426.")
    ] = True
    max_bytes: Annotated[
        Size, setting("Most disk space. The oldest entries of the key that has most are deleted first.")
    ] = 2**30
    keep: Annotated[
        SomeDuration, setting("Time after which a response is deleted, and a conversation that was not used.")
    ] = 2592000.0
