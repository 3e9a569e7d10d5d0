"""Stoker's own questions: a serve that refuses settings, and a preflight that is stopped before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.domain.errors import ClientError
from stoker.exchange import internal_client
from stoker.exchange.internal_client import InternalClient
from stoker.request.codec.usage import Usage
from stoker_auto.quality.recheck import PendingRecheck, Rechecks, VerifiedServe


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([400, 200, 200], [False, True, True]), ([400, 400, 200], [False, True, False])],
)
def test_settings_are_left_out_for_good_only_where_that_helped(
    monkeypatch: pytest.MonkeyPatch, answers: list[int], expected: list[bool]
) -> None:
    asked: list[bool] = []
    replies = iter(answers)

    async def exchange(*_: Any) -> tuple[int, bytes]:
        return next(replies), b""

    class Answer:
        usage = Usage()

        def translate_whole(self, body: bytes) -> None:
            pass

    monkeypatch.setattr(internal_client, "exchange", exchange)
    monkeypatch.setattr(internal_client, "AnswerTranslator", Answer)
    encoded = SimpleNamespace(head=b"", body=b"", translator=Answer())
    formatter = SimpleNamespace(format_own=lambda *_: SimpleNamespace(prompt_bytes=0), encode=lambda *_, **__: encoded)
    client = InternalClient(cast(Any, None), cast(Any, formatter))
    serve = cast(Any, SimpleNamespace(name="teller"))

    async def main() -> None:
        while True:
            try:
                await client.ask(serve, cast(Any, None), lambda plain: cast(Any, asked.append(plain)), 1.0)
            except ClientError:
                continue
            except RuntimeError:
                return  # no answer is left

    asyncio.run(main())
    assert asked[: len(expected)] == expected


def test_a_preflight_that_is_stopped_before_its_first_step_is_asked_for_again() -> None:
    proved: list[str] = []

    async def prove(serve: Any, target: Any) -> Any:
        proved.append(serve.name)
        return ()

    async def on_checked(running: VerifiedServe, pending: PendingRecheck, rounds: Any) -> bool:
        return False

    async def main() -> None:
        checks = Rechecks(
            lambda name: cast(Any, SimpleNamespace(serve=SimpleNamespace(name=name), target=None)),
            cast(Callable[..., Awaitable[Any]], prove), on_checked, lambda: 0.0,
        )  # fmt: skip
        checks.want("small", ("small", "chat"))
        checks.stop("small")
        for _ in range(10):
            await asyncio.sleep(0)
        assert proved == ["small"]
        checks.want("other", ("other", "chat"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert proved == ["small", "other"]
        await checks.close()

    asyncio.run(main())
