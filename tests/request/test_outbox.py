"""Messages go out together, in order, soon."""

from __future__ import annotations

import asyncio

from stoker.request.outbox import MAX_BATCH, Outbox


def test_messages_go_out_in_order_with_the_loops_next_turn() -> None:
    async def played() -> None:
        box, sent = Outbox(asyncio.get_running_loop()), list[bytes]()
        box.put(sent.append, b"1")
        box.put(sent.append, b"2")
        assert sent == []
        await asyncio.sleep(0)
        assert sent == [b"1", b"2"]
        box.put(sent.append, b"3")
        await asyncio.sleep(0)
        assert sent == [b"1", b"2", b"3"]

    asyncio.run(played())


def test_many_do_not_wait_for_more() -> None:
    async def played() -> None:
        box, sent = Outbox(asyncio.get_running_loop()), list[bytes]()
        for _ in range(MAX_BATCH - 1):
            box.put(sent.append, b"x")
        assert sent == []
        box.put(sent.append, b"last")
        assert (len(sent), sent[-1]) == (MAX_BATCH, b"last")
        box.put(sent.append, b"next")
        assert len(sent) == MAX_BATCH
        await asyncio.sleep(0)
        assert sent[-1] == b"next"

    asyncio.run(played())


def test_one_that_cannot_be_sent_does_not_hold_up_the_others() -> None:
    async def played() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
        box, sent = Outbox(asyncio.get_running_loop()), list[bytes]()
        error = OSError()

        def broken(message: bytes) -> None:
            raise error

        box.put(broken, b"1")
        box.put(sent.append, b"2")
        await asyncio.sleep(0)
        assert (sent, complaints) == ([b"2"], [error])

    asyncio.run(played())
