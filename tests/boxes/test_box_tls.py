"""A box whose certificate cannot be believed is awake: it is refused at once, and not woken."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import pytest
from tests.scenarios.caller import story
from tests.scenarios.test_tls import certificate

from stoker.domain.errors import StartFailed
from stoker.domain.serve import Serve, Slot, in_box
from stoker.fleet.drivers.unit import DriverContext
from stoker_boxes.driver import BoxDriver
from stoker_boxes.table import Box

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes certificates, is missing")


@story
async def test_an_unknown_certificate_is_no_sleep(tmp_path: Path) -> None:
    made = certificate(tmp_path, "own")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, made.with_suffix(".key"))

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    box = Box(url=url, mac="a4:bb:6d:01:23:45", wake_address="127.0.0.1", wake_timeout=2.0)
    driver = BoxDriver(
        DriverContext(None, None, logging.getLogger("x"), lambda _: None, lambda _: {"box2": box}, lambda _: None)  # type: ignore[arg-type]
    )
    serve = in_box(Serve("big", slot="box2:gpu0"), Slot("box2:gpu0", box="box2"))
    with pytest.raises(StartFailed, match="correct its certificate") as refused:
        await driver.launch(serve, (), 0.0, lambda _: None)
    assert refused.value.code == "box_unreachable"
    server.close()
