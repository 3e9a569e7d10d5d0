"""Finds the addresses that a worker may have, and refuses those that it must not have. Asks no worker."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from stoker_edge.command import run_command
from stoker_edge.edge import (
    AddressKind,
    DiscoveryCommand,
    DnsName,
    Ec2Instances,
    Edge,
    EdgeWorker,
    StaticAddress,
    WorkerAddress,
    address_kind,
)
from stoker_edge.problem import EdgeProblem

TIMEOUT = 10.0
"""Seconds for one discovery."""
MOST_OUTPUT = 16 * 1024
"""Bytes that a command may print."""
MOST_ADDRESSES = 32


async def discover(edge: Edge) -> list[WorkerAddress]:
    """The addresses to probe, none twice. Raises EdgeProblem: nothing was found, or nothing that may be used."""
    worker = edge.worker
    found = await _find(edge.name, worker)
    if not found:
        raise EdgeProblem(f"edge '{edge.name}': {_source(worker)} gave no address: {_next(worker)}")
    if len(found) > MOST_ADDRESSES:
        raise EdgeProblem(
            f"edge '{edge.name}': {_source(worker)} gave {len(found)} addresses, at most {MOST_ADDRESSES} are probed: "
            f"{_next(worker)}"
        )
    kinds = {address: address_kind(address) for address in found}
    usable = [address for address in found if _is_allowed(kinds[address], worker)]
    if not usable:
        raise EdgeProblem(_refusal(edge, found[0], kinds[found[0]], len(found)))
    return [WorkerAddress(address, worker.port) for address in usable]


def _is_allowed(kind: AddressKind, worker: EdgeWorker) -> bool:
    match kind:
        case AddressKind.PRIVATE:
            return True
        case AddressKind.LOOPBACK:
            return worker.allow_loopback or isinstance(worker.discovery, StaticAddress)
        case AddressKind.PUBLIC:
            return worker.allow_public
        case AddressKind.UNUSABLE:
            return False


def _refusal(edge: Edge, address: str, kind: AddressKind, number: int) -> str:
    every = "" if number == 1 else f", and neither is any other of the {number} addresses"
    where = f"[edge.{edge.name}]"
    if kind is AddressKind.PUBLIC:
        advice = f"let {_source(edge.worker)} give the private one, or set allow_public = true in {where}"
        return f"edge '{edge.name}': {address} is a public address, not a private one{every}: {advice}"
    if kind is AddressKind.LOOPBACK:
        advice = f"if the worker runs on this machine, set allow_loopback = true in {where}"
        return f"edge '{edge.name}': {address} is this machine itself, not a private address{every}: {advice}"
    return f"edge '{edge.name}': {address} cannot be a worker's address{every}: {_next(edge.worker)}"


async def _find(name: str, worker: EdgeWorker) -> list[str]:
    try:
        async with asyncio.timeout(TIMEOUT):
            match worker.discovery:
                case StaticAddress(address):
                    return [address]
                case DnsName(host):
                    return await _resolve(name, host, worker.port)
                case DiscoveryCommand(argv, directory):
                    return await _run(name, argv, directory)
                case Ec2Instances() as instances:
                    from stoker_edge.ec2 import private_addresses

                    return await asyncio.to_thread(private_addresses, name, instances, TIMEOUT)
    except TimeoutError:
        text = f"edge '{name}': {_source(worker)} gave no address within {TIMEOUT:g} s: {_next(worker)}"
        raise EdgeProblem(text) from None


async def _resolve(name: str, host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        text = f"edge '{name}': {host} cannot be resolved ({error.strerror}): `getent hosts {shlex.quote(host)}`"
        raise EdgeProblem(text) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _run(name: str, argv: Sequence[str], directory: str) -> list[str]:
    """One address a line. The command is killed, with its children, if it takes too long or prints too much."""
    shown = f"`{shlex.join(argv)}`"
    try:
        done = await run_command(argv, timeout=TIMEOUT, most_output=MOST_OUTPUT, directory=directory)
    except TimeoutError:
        raise
    except OSError as error:
        raise EdgeProblem(f"edge '{name}': {shown} cannot be started ({error.strerror}): correct `command`") from error
    if done.is_cut:
        raise EdgeProblem(f"edge '{name}': {shown} printed more than {MOST_OUTPUT} bytes: it has to print addresses")
    if done.code != 0:
        raise EdgeProblem(f"edge '{name}': {shown} ended with {done.code}: type it to see why")
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    return list(dict.fromkeys(_address(name, shown, line) for line in lines))


def _address(name: str, shown: str, line: str) -> str:
    try:
        return str(ip_address(line))
    except ValueError:
        text = f"edge '{name}': {shown} printed {line[:60]!r}, which is not an IP address: it has to print one a line"
        raise EdgeProblem(text) from None


def _source(worker: EdgeWorker) -> str:
    match worker.discovery:
        case StaticAddress():
            return "`static`"
        case DnsName(host):
            return host
        case DiscoveryCommand(argv):
            return f"`{shlex.join(argv)}`"
        case Ec2Instances(_, instance_id, tags):
            return f"EC2 ({instance_id or ', '.join(f'{key}={value}' for key, value in tags.items())})"


def _next(worker: EdgeWorker) -> str:
    match worker.discovery:
        case StaticAddress():
            return "correct `static`"
        case DnsName(host):
            return f"`getent ahosts {shlex.quote(host)}` shows what it resolves to"
        case DiscoveryCommand():
            return "type the command to see what it prints"
        case Ec2Instances():
            return "`aws ec2 describe-instances` shows which instances run, with their tags"
