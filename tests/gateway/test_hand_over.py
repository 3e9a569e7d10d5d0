"""Who may replace this Stoker, and when."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

import pytest

from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError
from stoker.gateway.hand_over import HandOverRequests
from stoker.request.accept.connection import IdleConnections


class Connection:
    """Over which a new process asks."""

    is_idle, is_encrypted = True, False

    def move(self, take: Callable[[int], None]) -> bool:
        return False

    def announce_end(self) -> None: ...


def body(**changes: object) -> bytes:
    return json.dumps({"host": "127.0.0.1", "port": 8000, "process": 7, **changes}).encode()


def accept(*bodies: bytes) -> object:
    """The answer to the last of these requests. Raises ClientError."""

    async def asked() -> object:
        requests = HandOverRequests(IdleConnections(), ListenSettings)
        answer = None
        for each in bodies:
            answer = requests.accept(Connection(), each)
        requests.end()
        return answer

    return asyncio.run(asked())


def test_the_answer_says_who_is_replaced_and_how_long_its_requests_may_take() -> None:
    assert accept(body()) == {"process": os.getpid(), "grace": 30.0}


@pytest.mark.parametrize(
    ("bodies", "code", "text"),
    [
        ([body(), body(process=8)], "being_replaced", "process 7 is replacing this Stoker already"),
        ([body(port=9000)], "other_address", "listens on 127.0.0.1:8000, the new one would listen on 127.0.0.1:9000"),
        ([b"{}"], "bad_json", "missing required field `host`"),
        ([b"\xff"], "bad_json", "invalid"),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused(bodies: list[bytes], code: str, text: str) -> None:
    with pytest.raises(ClientError, match=text) as found:
        accept(*bodies)
    assert found.value.code == code


def test_a_systemd_service_is_restarted_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
    with pytest.raises(ClientError, match="type `systemctl restart stoker` instead"):
        accept(body())
