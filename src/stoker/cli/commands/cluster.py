"""`stoker cluster`: the Ray clusters of the configuration, and how one is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.installation import load_settings
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from stoker.domain.cluster import Cluster
    from stoker.fleet.cluster.examine import ClusterView

app = typer.Typer(help="Ray clusters: their nodes, GPUs and jobs.", no_args_is_help=True)

EXAMPLE = """\
# 1. Once: a token. Every machine of the cluster, and Stoker, need this file. Whoever has it can run commands there.
openssl rand -hex 32 > ~/ray.token && chmod 600 ~/ray.token

# 2. On every machine of the cluster, the head included; the same version of Ray everywhere:
pip install "ray[default]>=2.52"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=~/ray.token
export RAY_gcs_rpc_server_reconnect_timeout_s=600   # engines outlive a head that is away; without it, for 60 s only

# 3. The head. Nothing but Ray's own processes runs here with --num-gpus=0; leave it out to use this machine's GPUs.
export RAY_JOB_START_TIMEOUT_SECONDS=60             # a job that finds no GPU is given up after this, not after 900 s
export RAY_gcs_storage=rocksdb RAY_gcs_storage_path=~/ray-gcs   # a head that starts again still knows its jobs
ray start --head --node-ip-address={head} --dashboard-host={head} --num-gpus=0

# 4. Each other machine, with any labels that slots should find it by:
ray start --address={head}:6379 --labels=box=alpha

# 5. stoker.toml, on a machine that reaches all of them. Nothing here is encrypted: use a private network or a VPN.
# [clusters.lab]
# address = "http://{head}:8265"
# token = "file:~/ray.token"
# [slots.lab-a]
# cluster = "lab"
# gpus = 1
# node = {{ box = "alpha" }}
"""


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[CLUSTER]", help="One cluster. Default: all.")] = None,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show nodes, their GPUs and labels, and the jobs that Stoker runs there. It need not run."""
    configured = load_settings(config, needs_secrets=False).clusters
    chosen = [cluster for cluster in configured if name in (None, cluster.name)]
    if name is not None and not chosen:
        known = ", ".join(cluster.name for cluster in configured) or "none is configured"
        raise UsageError(f"there is no cluster '{name}': {known}")
    found = [(cluster, _view(cluster)) for cluster in chosen]
    if json:
        terminal.emit([_document(cluster, view) for cluster, view in found])
    elif not found:
        terminal.say("there is no [clusters.NAME] in the configuration; how one is started: stoker cluster up-example")
    else:
        for cluster, view in found:
            _show(cluster, view)
    if any(isinstance(view, str) for _, view in found):
        raise typer.Exit(FAILED)


@app.command("up-example")
def up_example(
    head: Annotated[
        str, typer.Option("--head", metavar="ADDRESS", help="Address of the head, for the others.")
    ] = "head",
) -> None:
    """Print the commands that start a cluster with the settings that Stoker needs. Starts nothing."""
    terminal.say(EXAMPLE.format(head=head).rstrip())


def _view(cluster: Cluster) -> ClusterView | str:
    """What is in the cluster; or why that is unknown."""
    import asyncio

    from stoker.fleet.cluster.examine import unfit_reason, view
    from stoker.fleet.cluster.jobs_api import JobsApi

    async def ask() -> ClusterView | str:
        api = JobsApi(cluster.address, cluster.token.reveal)
        return await unfit_reason(api) or await view(api)

    try:
        return asyncio.run(ask())
    except StokerError as failure:
        return failure.message


def _show(cluster: Cluster, view: ClusterView | str) -> None:
    if isinstance(view, str):
        terminal.say(f"{cluster.name}: {view}\n")
        return
    used = sum(view.used.values())
    terminal.say(f"{cluster.name}: Ray {view.version} at {cluster.address}, {used:g} of {view.gpus:g} GPUs in use\n")
    rows = [
        (node.ip + (" (head)" if node.is_head else ""), f"{view.used.get(node.id, 0):g} of {node.gpus:g}",
         ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items())) or "-")
        for node in view.nodes
    ]  # fmt: skip
    terminal.table(("NODE", "GPUS IN USE", "LABELS"), rows)
    terminal.say()
    jobs = _jobs(view)
    if jobs:
        terminal.table(
            ("JOB", "SERVE", "SLOT", "NODE", "STATE"),
            [(job["id"], job["serve"], job["slot"], job["node"] or "-", job["state"]) for job in jobs],
        )
    else:
        terminal.say("no jobs of Stoker")
    terminal.say()


def _jobs(view: ClusterView) -> list[dict[str, Any]]:
    from stoker.fleet.cluster.nodes import NODE, SERVE, SLOT

    ip = {node.id: node.ip for node in view.nodes}
    return [
        {"id": job.id, "serve": job.metadata.get(SERVE, "?"), "slot": job.metadata.get(SLOT, "?"),
         "node": ip.get(job.metadata.get(NODE, "")), "state": job.status.value}
        for job in view.jobs
    ]  # fmt: skip


def _document(cluster: Cluster, view: ClusterView | str) -> dict[str, Any]:
    document: dict[str, Any] = {"name": cluster.name, "address": cluster.address}
    if isinstance(view, str):
        return document | {"problem": view}
    nodes = [
        {"id": node.id, "address": node.ip, "is_head": node.is_head, "gpus": node.gpus,
         "gpus_in_use": view.used.get(node.id, 0.0), "labels": dict(node.labels)}
        for node in view.nodes
    ]  # fmt: skip
    return document | {"ray_version": view.version, "nodes": nodes, "jobs": _jobs(view)}
