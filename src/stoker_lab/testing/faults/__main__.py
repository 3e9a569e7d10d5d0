"""`python -m stoker_lab.testing.faults --upstream URL --fault NAME --port N`; without --fault, the list."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from stoker.domain.lease import Target
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.grafts import GRAFTS
from stoker_lab.testing.faults.proxy import FaultProxy
from stoker_lab.testing.faults.table import FAULTS, NONE


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stoker_lab.testing.faults", description="One serving fault on command."
    )
    parser.add_argument("--upstream", metavar="URL", help="a server with an OpenAI-like API, without /v1")
    parser.add_argument("--fault", choices=("none", *FAULTS), metavar="NAME", help="default: list them")
    parser.add_argument("--port", type=int, default=0, help="on loopback; default a free one")
    found = parser.parse_args(argv)
    if found.fault is None or found.upstream is None:
        for fault in FAULTS.values():
            print(f"{fault.name:24} {fault.description} ({' or '.join(sorted(fault.checks))})")
        return 0
    url = urlsplit(found.upstream)
    if url.scheme != "http" or not url.hostname:
        parser.error("--upstream must be like http://127.0.0.1:9001")
    target = Target(url.hostname, url.port or 80, url.path.rstrip("/").removesuffix("/v1"), "")
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(target, FAULTS.get(found.fault, NONE), found.port))
    return 0


async def _run(target: Target, fault: ServingFault, port: int) -> None:
    async with FaultProxy(target, fault, [GRAFTS[name] for name in fault.needed_abilities], port) as proxy:
        print(f"http://127.0.0.1:{proxy.port}: {fault.description}", flush=True)
        await proxy.forever()


if __name__ == "__main__":
    sys.exit(main())
