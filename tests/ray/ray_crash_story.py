"""A control plane that starts one serve in a cluster, stops it when a line comes, and may be killed at any time.

ray_crash_story.py DIRECTORY HEAD-ADDRESS one|ranks TOKEN
"""

import asyncio
import sys
from pathlib import Path

from tests.fleet.conftest import Workshop
from tests.ray.ray_ranks import on_two_nodes
from tests.ray.test_ray_driver import in_lab

from stoker.domain.cluster import Cluster
from stoker.domain.serve import Secret


async def story(directory: str, address: str, kind: str, token: str) -> None:
    shop = Workshop(Path(directory))
    supervisor = shop.supervisor(cluster_of=lambda name: Cluster("lab", address, Secret(token, "file:token")))
    serve = on_two_nodes(shop, address) if kind == "ranks" else in_lab(shop, address)
    await supervisor.start(serve, shop.on_exit)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await supervisor.stop("a", 1.0)
    print("stopped", flush=True)
    await supervisor.close(leave_running=False)


asyncio.run(story(*sys.argv[1:]))
