"""Runs the program in the foreground until a signal.

`run` holds the state directory's lock and opens both doors (TCP, and the control socket that needs no key). `_serve`
takes over what an earlier Stoker left running, and serves. At the end, `Server` refuses requests that wait, lets
streams end and cuts the rest. Then `close_parts` stops the serves, or leaves them, and writes the last decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stoker.app.allocator import FreedMemory, give_back_large_blocks, glibc_heap
from stoker.app.build import build, close_parts
from stoker.app.configuration import ActiveConfiguration, Configuration, first_configuration, placed_serves
from stoker.app.context import Announce, ReadAgain, RunOptions, SelfCheck, Welcome
from stoker.app.inherited_sockets import inherited_socket
from stoker.app.parts import ProgramParts
from stoker.app.resume import to_resume
from stoker.app.server_parts import RunningServer
from stoker.app.take_over import take_over
from stoker.domain.access import ListenSettings, Settings
from stoker.domain.errors import StokerError
from stoker.domain.host_port import host_port
from stoker.domain.serve import slots_of
from stoker.engines.masks import pitfalls, uses_vulkan
from stoker.gateway.log_file import logging_to
from stoker.gateway.server import Server, ServerOptions, close, event_loop, listen
from stoker.request.accept.connection import WireProtocol
from stoker.store.state_dir import IN_FILE, WITHOUT_FILE, StateDir

GC_THRESHOLD = 20_000
"""Objects between two garbage collections: a request leaves about ten, so one comes every two thousand requests."""
SWITCH_INTERVAL = 0.0005
"""Seconds for which the event loop waits at each of its callbacks while another thread works on a large body. Python's
own 0.005 add up: a turn of the loop with sixteen uploads has dozens of callbacks.
"""


def run(
    settings: Settings,
    *,
    leave_running: bool = False,
    resume: bool = False,
    replace: bool = False,
    announce: Announce = print,
    read: ReadAgain | None = None,
    force: frozenset[str] = frozenset(),
    self_check: SelfCheck | None = None,
    welcome: Welcome = lambda needs_key: "",
) -> int:
    """Serve in the foreground until SIGTERM or Ctrl-C. Returns 0 after an orderly end, 1 if it could not start.

    `leave_running`: serves outlive the program. `resume`: what ran last in each slot is started again, as after a
    reboot. `replace`: the Stoker that runs on the same state directory, if any, hands its sockets over and ends.
    `read` reads the configuration again. `force`: rejected and blocked serves that may run. `self_check`: what
    `GET /admin/doctor` answers with; it is called in a thread. `welcome`: see `Welcome`.

    A second signal ends now: streams are cut, serves are killed, within 2 s in all.
    """
    give_back_large_blocks()
    options = RunOptions(announce, read, force, leave_running, replace, resume, self_check, welcome)
    with contextlib.ExitStack() as resources:
        try:
            configuration = first_configuration(settings)
            elsewhere = IN_FILE if settings.source else WITHOUT_FILE
            state = StateDir(Path(settings.paths.state), elsewhere, settings.source)
            sockets = _open_sockets(settings, state, options, resources)
        except (StokerError, OSError) as error:
            announce(f"stoker: {error}")
            return 1
        if state.note is not None:
            announce(state.note)
        try:
            return event_loop()(_main(configuration, state, options, sockets))
        except KeyboardInterrupt:  # before the server took the signals over
            return 130


class OpenSockets(NamedTuple):
    """What is served."""

    listening: list[socket.socket]
    """TCP, then the control socket."""
    connections: list[socket.socket]
    """Of clients that were connected to the Stoker that this one replaces."""
    is_kept: bool = False
    """systemd keeps the TCP socket open when this process ends."""


def _open_sockets(
    settings: Settings, state: StateDir, options: RunOptions, resources: contextlib.ExitStack
) -> OpenSockets:
    """Lock the state directory, and open the sockets or take those of the Stoker that is replaced. Raises StokerError
    and OSError.
    """
    door = settings.front_door
    inherited = inherited_socket(door, os.environ)
    taken = take_over(state, door, options.announce) if options.replace and inherited is None else None
    if taken is None:
        state.lock()
    resources.callback(state.close)
    if taken is not None:
        if state.socket_path.exists():
            state.own_socket()
        else:  # the other process was stopped meanwhile, and removed it
            taken.listening.pop().close()
            taken.listening.append(state.bind_socket())
        resources.callback(close, [*taken.listening, *taken.connections])
    resources.enter_context(logging_to(Path(settings.paths.logs), settings.paths.log_bytes))
    if taken is not None:
        return OpenSockets(taken.listening, taken.connections)
    sockets = [inherited or listen(door.host, door.port), state.bind_socket()]
    resources.callback(close, sockets)
    return OpenSockets(sockets, [], inherited is not None)


async def _main(configuration: Configuration, state: StateDir, options: RunOptions, sockets: OpenSockets) -> int:
    """Build, open, wait for the signal, close. On cancel the same, without waiting for streams."""
    active = ActiveConfiguration(configuration)
    parts, front = build(active, state, options)
    gc.collect()
    gc.freeze()  # what lives as long as the program is never collected
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL)
    door, certificate = configuration.settings.front_door, parts.gateway.certificate
    server_options = ServerOptions(
        door.shutdown_grace,
        lambda: _announce_open(active.settings.front_door, parts.access.control.asks_for_keys, options),
        parts.extensions.closing,
        options.leave_running,
        None if certificate is None else certificate.context,
        sockets.is_kept,
        sockets.connections,
    )
    server = Server(partial(WireProtocol, front), parts.fleet.conductor, front.idle, front.hand_over, server_options)
    with server.handled_signals():
        try:
            await _serve(parts, active, options, server, sockets.listening)
        finally:
            if server.successor is not None:
                state.keep_socket()
            left = await close_parts(parts, server.leaves_running)
    for problem in left:
        options.announce(f"not stopped: {problem}")
    options.announce(_last_words(server))
    return 0


def _last_words(server: Server) -> str:
    if server.successor is not None:
        return f"replaced by process {server.successor.process}; the serves keep running"
    return "stopped; the serves keep running" if server.leaves_running else "stopped"


async def _serve(
    parts: ProgramParts, active: ActiveConfiguration, options: RunOptions, server: Server, sockets: list[socket.socket]
) -> None:
    # The doors are bound but not read yet: clients that connect meanwhile wait, and meet what was adopted.
    fleet = parts.fleet
    is_vulkan_used = any(uses_vulkan(serve) for serve in active.settings.serves)
    for text in pitfalls(active.current.machine, is_vulkan_used):
        options.announce(f"device numbers: {text}")
    recovering = {name for swap in fleet.journal.unfinished() for name in slots_of(swap.slot)}
    await fleet.conductor.begin()
    if options.resume:
        for slot, serve in to_resume(parts.store.residents.last(), fleet.conductor.scheduler.slots, recovering):
            options.announce(f"resuming {serve} in slot {slot}")
            fleet.conductor.preload(serve)
    for one in active.settings.serves:
        if one.preload and not one.needs_force:
            fleet.conductor.preload(one.name)
    loop = asyncio.get_running_loop()
    parts.extensions.configure(active.settings)
    fleet.external.configure(placed_serves(active.settings, active.current.machine))
    watching = [
        loop.create_task(parts.watchdog.run(), name="watchdog"),
        loop.create_task(fleet.external.run(), name="external"),
        loop.create_task(parts.extensions.run(RunningServer(fleet.moves.on_proved)), name="extensions"),
        loop.create_task(parts.access.store.run(), name="access"),
        loop.create_task(parts.store.responses.run(), name="responses"),
    ]
    heap = glibc_heap()
    if heap is not None:
        watching.append(loop.create_task(FreedMemory(heap).run(), name="memory"))
    if parts.gateway.certificate is not None:
        watching.append(loop.create_task(parts.gateway.certificate.run(), name="certificate"))
    try:
        await server.serve(sockets)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


def _announce_open(door: ListenSettings, asks_for_keys: bool, options: RunOptions) -> None:
    announce = options.announce
    announce(f"listening on {door.scheme}://{host_port(door.host, door.port)}")
    if asks_for_keys and not door.keys:
        announce("requests need one of the keys that `stoker keys create` made: see `stoker keys list`")
    if door.auth is False and door.host not in ("127.0.0.1", "::1", "localhost"):
        announce(f'warning: auth = "none" on {door.host}: anyone who reaches this port can use your models')
    welcome = options.welcome(asks_for_keys)
    if welcome:
        announce(welcome)
