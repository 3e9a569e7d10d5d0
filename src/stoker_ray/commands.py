"""`stoker cluster`: the Ray clusters of the configuration, and how one is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stoker.domain.cluster import Cluster
    from stoker.domain.serve import Slot
    from stoker_ray.examine import ClusterProblem, ClusterView

app = typer.Typer(cls=CommandsWithHints, help="Ray clusters: their nodes, GPUs and jobs.", no_args_is_help=True)
options.accept_config(app)

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
    name: Annotated[
        str | None,
        typer.Argument(metavar="[CLUSTER]", help="One cluster. Default: all.", autocompletion=options.cluster_names),
    ] = None,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show nodes, their GPUs and labels, and the jobs that Stoker runs there. It need not run."""
    settings = load_settings(config, needs_secrets=False)
    chosen = [cluster for cluster in settings.clusters if name in (None, cluster.name)]
    if name is not None and not chosen:
        raise UsageError(
            _unknown(name, [cluster.name for cluster in settings.clusters], options.same_place(config, None))
        )
    found = [_examined(cluster, settings.slots) for cluster in chosen]
    if json:
        terminal.emit([_document(one) for one in found])
    elif not found:
        terminal.say("there is no [clusters.NAME] in the configuration; how one is started: stoker cluster up-example")
    else:
        for one in found:
            _show(one)
    if any(isinstance(one, _UnreachedCluster) for one in found):
        raise typer.Exit(FAILED)


@app.command("up-example")
def up_example(
    head: Annotated[
        str, typer.Option("--head", metavar="ADDRESS", help="Address of the head, for the others.")
    ] = "head",
) -> None:
    """Print the commands that start a cluster with the settings that Stoker needs. Starts nothing."""
    terminal.say(EXAMPLE.format(head=head).rstrip())


class _ReachedCluster(NamedTuple):
    cluster: Cluster
    view: ClusterView
    unmet: Mapping[str, str]
    """Slots that no node could serve, and why."""


class _UnreachedCluster(NamedTuple):
    cluster: Cluster
    problem: ClusterProblem


def _examined(cluster: Cluster, slots: Iterable[Slot]) -> _ReachedCluster | _UnreachedCluster:
    import asyncio

    from stoker_ray.examine import ClusterProblem, examine, slots_without_node

    found = asyncio.run(examine(cluster))
    if isinstance(found, ClusterProblem):
        return _UnreachedCluster(cluster, found)
    return _ReachedCluster(cluster, found, slots_without_node(cluster, slots, found))


def _unknown(name: str, known: Sequence[str], place: str) -> str:
    if not known:
        return f"there is no cluster '{name}': the configuration has no [clusters.NAME]; see stoker cluster up-example"
    return f"there is no cluster '{name}'; there is {', '.join(known)}: stoker cluster status {known[0]}{place}"


def _show(one: _ReachedCluster | _UnreachedCluster) -> None:
    if isinstance(one, _UnreachedCluster):
        problem = one.problem
        terminal.say(f"{one.cluster.name}: {problem.message}\n  {problem.fix}\n  next: {problem.next}\n")
        return
    cluster, view, unmet = one
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
        hosts = [f"{job['node'] or '?'}{' (dead)' if job['is_node_dead'] else ''}" for job in jobs]
        terminal.table(
            ("JOB", "SERVE", "SLOT", "NODE", "STATE"),
            [(job["id"], job["serve"], job["slot"], host, job["state"]) for job, host in zip(jobs, hosts, strict=True)],
        )
    else:
        terminal.say("no jobs of Stoker")
    terminal.say()
    for slot, reason in unmet.items():
        terminal.say(f"slot '{slot}': {reason}")


def _jobs(view: ClusterView) -> list[dict[str, Any]]:
    from stoker_ray.nodes import NODE, SERVE, SLOT

    return [
        {"id": job.id, "serve": job.metadata.get(SERVE, "?"), "slot": job.metadata.get(SLOT, "?"),
         "node": view.host_of(job), "is_node_dead": job.metadata.get(NODE) in view.dead, "state": job.status.value}
        for job in view.jobs
    ]  # fmt: skip


def _document(one: _ReachedCluster | _UnreachedCluster) -> dict[str, Any]:
    document: dict[str, Any] = {"name": one.cluster.name, "address": one.cluster.address}
    if isinstance(one, _UnreachedCluster):
        return document | {"problem": one.problem.message, "fix": one.problem.fix, "next": one.problem.next}
    view = one.view
    nodes = [
        {"id": node.id, "address": node.ip, "is_head": node.is_head, "gpus": node.gpus,
         "gpus_in_use": view.used.get(node.id, 0.0), "labels": dict(node.labels)}
        for node in view.nodes
    ]  # fmt: skip
    slots = [{"name": slot, "problem": reason} for slot, reason in one.unmet.items()]
    return document | {
        "ray_version": view.version, "nodes": nodes, "jobs": _jobs(view), "slots_without_node": slots,
    }  # fmt: skip
