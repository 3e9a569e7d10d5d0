"""Stoker's own questions: a place that is taken away in the moment its time is over, a serve that refuses settings, and
a preflight that is stopped before it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker import asker
from stoker.asker import Asker, place
from stoker.domain.errors import ClientError
from stoker.domain.lease import Lease
from stoker.rechecking import Rechecks, There, Wanted


class Place:
    """A lease, of which only the cut and the release matter."""

    def __init__(self) -> None:
        self.on_cut: Callable[[str], None] = lambda reason: None
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


async def cut_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Place()

    async def granted(*_: Any) -> Lease:
        return cast(Lease, lease)

    monkeypatch.setattr(asker, "_lease", granted)
    loop = asyncio.get_running_loop()

    async def asking() -> None:
        async with place(cast(Any, None), cast(Any, None), False, 60.0):
            lease.on_cut("drain")
            loop.call_soon(lease.on_cut, "and again, now that its time is over")
            await asyncio.sleep(60)

    with pytest.raises(Exception, match="taken away"):
        await asking()
    assert lease.is_released


def test_a_place_that_is_cut_twice_in_one_moment_breaks_nothing_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        await cut_twice(monkeypatch)

    asyncio.run(main())
    assert not broken


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
        usage = None

        def whole(self, body: bytes) -> None:
            pass

    monkeypatch.setattr(asker, "exchange", exchange)
    monkeypatch.setattr(asker, "AnswerTranslator", Answer)
    sending = SimpleNamespace(head=b"", body=b"", answer=Answer())
    speech = SimpleNamespace(own=lambda serve, target, question: None, sending=lambda *_, **__: sending)
    one = Asker(cast(Any, None), cast(Any, speech))
    serve = cast(Any, SimpleNamespace(name="teller"))

    async def main() -> None:
        while True:
            try:
                await one.said(serve, cast(Any, None), lambda plain: cast(Any, asked.append(plain)), 1.0)
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

    async def over(there: There, wanted: Wanted, rounds: Any) -> bool:
        return False

    async def main() -> None:
        checks = Rechecks(
            lambda name: cast(Any, SimpleNamespace(serve=SimpleNamespace(name=name), target=None)),
            cast(Callable[..., Awaitable[Any]], prove), over, lambda: 0.0,
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
