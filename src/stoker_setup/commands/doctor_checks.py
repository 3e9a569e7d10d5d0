"""The checks of `doctor`. Each covers one part: its health, how to fix it, and the next command."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.commands.watchdog import elsewhere
from stoker.cli.console import figures
from stoker.cli.machine import discover
from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.domain.figures import counted
from stoker.domain.host_port import host_port
from stoker.engines import masks
from stoker.engines.masks import NATIVE, MachineCards, names_device
from stoker.engines.record import Api
from stoker.fleet.drivers.process_group import WATCH_INTERVAL
from stoker.store.files import model_file
from stoker.system.identity import is_macos
from stoker_setup.clients.facts import takes_images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.cli.console.answers import StatusAnswer
    from stoker.domain.access import ListenSettings, Media, Paths, ResponseStorage, Settings
    from stoker.domain.serve import Serve, Slot
    from stoker.fleet.memory.devices import Device, DeviceProbe
    from stoker.fleet.memory.host import HostMemory

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIGHT, _FULL = 5 * 2**30, 200 * 2**20


def python() -> DoctorFinding:
    """Interpreter and platform: Linux is what is tested."""
    version = ".".join(str(n) for n in sys.version_info[:3])
    system: str = sys.platform
    if system == "linux":
        return DoctorFinding("python", DoctorHealth.OK, f"Python {version} on Linux")
    if system == "darwin":
        lacks = "" if hasattr(os, "waitid") else "; how engines end is known from Python 3.13 on"
        return DoctorFinding(
            "python", DoctorHealth.WARN, f"Python {version} on macOS: Stoker's own tests have not run on a Mac{lacks}",
            "the guide says what differs: stoker docs macos", "stoker up --demo",
        )  # fmt: skip
    return DoctorFinding(
        "python", DoctorHealth.WARN, f"Python {version} on {system}: only Linux is tested",
        "best effort here; run it on Linux, or in a Linux container", "stoker up --demo",
    )  # fmt: skip


def platform() -> list[DoctorFinding]:
    """What the program uses where the system has it: pidfd, unix sockets, uvloop."""
    findings = []
    if hasattr(os, "pidfd_open"):
        findings.append(DoctorFinding("pidfd", DoctorHealth.OK, "the end of a process is noticed at once"))
    elif is_macos():
        detail = f"macOS has none: the end of a process is noticed within {figures.seconds(WATCH_INTERVAL)}"
        findings.append(DoctorFinding("pidfd", DoctorHealth.OK, detail))
    else:
        findings.append(
            DoctorFinding(
                "pidfd",
                DoctorHealth.WARN,
                "not available: the end of a process is noticed by polling",
                "use Linux 5.3 or newer with Python 3.11 or newer",
                "stoker doctor",
            )
        )
    if hasattr(socket, "AF_UNIX"):
        findings.append(DoctorFinding("unix sockets", DoctorHealth.OK, "commands can reach a running Stoker"))
    else:
        findings.append(
            DoctorFinding(
                "unix sockets",
                DoctorHealth.FAIL,
                "not available: commands cannot reach a running Stoker",
                "use Linux, or Windows Subsystem for Linux",
                "stoker doctor",
            )
        )
    if discover.is_importable("uvloop"):
        findings.append(DoctorFinding("uvloop", DoctorHealth.OK, "importable"))
    else:
        findings.append(
            DoctorFinding(
                "uvloop",
                DoctorHealth.WARN,
                "not importable: the slower event loop of the standard library is used",
                "install it",
                "pip install uvloop",
            )
        )
    return findings


def state_directory(state: Path, running: int | None) -> DoctorFinding:
    """`running` is the pid of the Stoker that answers there."""
    part = "state directory"
    place = next((p for p in (state, *state.parents) if p.exists()), Path("/"))
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return DoctorFinding(
            part, DoctorHealth.FAIL, f"{state}: the file system of {place} is read-only",
            "mount it writable, or set [paths] state elsewhere", f"df {place}",
        )  # fmt: skip
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        return DoctorFinding(
            part, DoctorHealth.FAIL, f"{state}: this user cannot write to {place}",
            "give it to this user, or set [paths] state elsewhere", f"sudo chown -R $(id -un) {place}",
        )  # fmt: skip
    if not state.exists():
        return DoctorFinding(part, DoctorHealth.OK, f"{state} (created by the first `stoker up`)")
    if state.stat().st_mode & 0o022:
        return DoctorFinding(
            part, DoctorHealth.FAIL, f"{state}: other users can write to it", "close it", f"chmod 700 {state}"
        )
    if running is not None:
        detail = f"{state}, locked by the running Stoker (pid {running})"
        return DoctorFinding(part, DoctorHealth.OK, detail, next="stoker serves status")
    holder = _lock_holder(state / "lock")
    if holder is not None:
        return DoctorFinding(
            part, DoctorHealth.WARN, f"{state}: locked by {holder}, which does not answer on its socket",
            "wait if it has just started; otherwise stop it", "stoker serves status",
        )  # fmt: skip
    return DoctorFinding(part, DoctorHealth.OK, f"{state}, not locked")


def _lock_holder(lock: Path) -> str | None:
    import fcntl

    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = file.readline(32).decode("ascii", "replace").strip()
                return f"pid {pid}" if pid.isdigit() else "another process"
    except FileNotFoundError:
        return None
    return None


def port(front_door: ListenSettings, running: int | None) -> DoctorFinding:
    """Free, or ours."""
    from stoker.cli.machine import ports

    where = host_port(front_door.host, front_door.port)
    try:
        if ports.is_free(front_door.host, front_door.port):
            return DoctorFinding("port", DoctorHealth.OK, f"{where} is free")
    except OSError as error:
        return DoctorFinding(
            "port", DoctorHealth.FAIL, f"cannot listen on {where}: {error.strerror or error}",
            "set [front_door] host and port to an address of this machine", "stoker config check",
        )  # fmt: skip
    if running is not None:
        return DoctorFinding("port", DoctorHealth.OK, f"{where} is used by the running Stoker (pid {running})")
    return DoctorFinding(
        "port", DoctorHealth.FAIL, f"{where} is in use by {ports.holder(front_door.port)}",
        "stop that program, or listen elsewhere",
        f"stoker up --port {ports.another_port(front_door.host, front_door.port)}",
    )  # fmt: skip


def access(front_door: ListenSettings, asks_for_keys: bool | None = None) -> DoctorFinding:
    """Who may ask, against who can reach the port. `asks_for_keys`: what the Stoker that runs does; None: none runs."""
    where = f"listens on {front_door.host}"
    if asks_for_keys is None:
        asks_for_keys = front_door.auth is True or (front_door.auth is None and bool(front_door.keys))
    which = counted(len(front_door.keys), "key") if front_door.keys else "a key that `stoker keys create` made"
    if front_door.host in _LOOPBACK:
        keys = which if asks_for_keys else "no key is needed"
        return DoctorFinding("keys", DoctorHealth.OK, f"{where}: only this machine reaches it; {keys}")
    if asks_for_keys:
        return DoctorFinding("keys", DoctorHealth.OK, f"{where}: other machines reach it with {which}")
    return DoctorFinding(
        "keys", DoctorHealth.WARN, f"{where}: anyone who reaches the port can use and administer Stoker",
        'add keys to [front_door] and remove auth = "none"', "stoker config check",
    )  # fmt: skip


def engines(serves: Sequence[Serve], found: Sequence[discover.InstalledEngine]) -> DoctorFinding:
    """The usual engine where a serve needs it; the rest by name."""
    from stoker.domain.serve import Driver
    from stoker.engines.launch import find_command
    from stoker.engines.registry import DEFAULT

    names = ", ".join(dict.fromkeys(e.name for e in found if e.name != "docker")) or "none"
    own = [s for s in serves if s.engine == DEFAULT.name and s.cmd is None and s.driver is Driver.PROCESS]
    on_path = any(e.name == DEFAULT.name for e in found)
    embedded = any(e.name in DEFAULT.packages.values() for e in found)
    lacking = [
        s.name for s in own if not ((on_path and s.embedded is not True) or (embedded and s.embedded is not False))
    ]
    if lacking:
        return DoctorFinding(
            "engines", DoctorHealth.FAIL, f"found: {names}; no {DEFAULT.title} for {', '.join(lacking)}",
            f"put {DEFAULT.program} on PATH, or install the embedded one", DEFAULT.install,
        )  # fmt: skip
    missing = [
        f"{s.name}: {s.cmd[0]}" for s in serves if s.cmd and "{" not in s.cmd[0] and find_command(s, s.cmd[0]) is None
    ]
    if missing:
        return DoctorFinding(
            "engines", DoctorHealth.FAIL, f"found: {names}; no such command: {', '.join(missing)}",
            "install it, or write its full path into cmd", "stoker doctor",
        )  # fmt: skip
    return DoctorFinding("engines", DoctorHealth.OK, f"found: {names}")


def weights(serve: Serve) -> DoctorFinding:
    """Of a serve that reads a GGUF file: there, readable, and one."""
    part, path = f"weights of {serve.name}", Path(serve.model)
    if not path.exists() and _is_ollama_blob(path):
        name = next((alias for alias in serve.aliases if ":" in alias), serve.name)
        return DoctorFinding(
            part,
            DoctorHealth.FAIL,
            f"{path} is gone: Ollama removed the model ({name}), or updated it",
            "look at what Ollama has now; with --path NEW_FILE --partial instead of --check it is written to another "
            "file, to copy the serve from. If it was removed by mistake, `ollama pull` it first. With --link the file "
            "stays when Ollama removes it",
            "stoker import ollama --check",
        )
    if problem := model_file.problem_of(str(path)):
        what, _, remedy = problem.rpartition(": ")
        return DoctorFinding(
            part,
            DoctorHealth.FAIL,
            what,
            remedy.replace("the path", "`model`" if serve.cmd is None else "`model` and `cmd`"),
            f"stoker fit {shlex.quote(str(path))}",
        )
    return DoctorFinding(part, DoctorHealth.OK, f"{path}, {figures.size(path.stat().st_size)}")


def fit(serve: Serve, slot: Slot | None, probe: DeviceProbe, main: HostMemory) -> DoctorFinding | None:
    """What `stoker fit` says of the serve's memory. None: `weights` says what is wrong, or only its engine knows."""
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.fit import check

    if not os.path.isabs(serve.model) or not os.path.exists(serve.model) or serve.context_problem:
        return None
    part, more = f"fit of {serve.name}", f"stoker fit {serve.name}"
    try:
        report = check.check_fit(serve, check.devices_for(serve, slot, probe.devices()), main)
    except UnreadableModel as error:
        is_told = os.path.isfile(serve.model) and bool(model_file.problem_of(serve.model))
        return None if is_told else DoctorFinding(part, DoctorHealth.FAIL, error.message, "take another file", more)
    if report.problems:
        is_sure = serve.cmd is None  # a command of one's own may say what Stoker does not know
        health = DoctorHealth.FAIL if is_sure else DoctorHealth.WARN
        return DoctorFinding(part, health, "; ".join(report.problems), "see what would fit", more)
    rows = [f"{figures.size(row.need.total)} of {figures.size(row.fit.room)} in {row.place}" for row in report.rows]
    context = f"{report.plan.parallel} x {report.estimate.context} tokens"
    return DoctorFinding(part, DoctorHealth.OK, f"{report.fit.answer}: {context} need {'; '.join(rows)}")


def _is_ollama_blob(path: Path) -> bool:
    """Whether the file is, or was, one of Ollama's: they are named by their digest."""
    return path.parent.name == "blobs" and path.name.startswith("sha256-")


def images(serves: Sequence[Serve], media: Media) -> DoctorFinding | None:
    """What happens with addresses of images. None: no serve takes images, but for clouds, which fetch them."""
    names = ", ".join(s.name for s in serves if takes_images(s) and not s.translation.cloud)
    if not names:
        return None
    if not media.fetch:
        detail = "addresses of images are refused, so clients send data: URLs ([media] fetch = true allows addresses)"
    else:
        detail = f"Stoker fetches them from {', '.join(media.hosts) or 'any public host'} ([media])"
    return DoctorFinding("images", DoctorHealth.OK, f"{names} takes images; {detail}")


def identities(serves: Sequence[Serve]) -> DoctorFinding | None:
    """Serves of which Stoker cannot prove which model answers. None: there are none."""
    from stoker.domain.serve import IDENTITY_NOT_PROVED, ServeIdentity

    names = ", ".join(serve.name for serve in serves if serve.identity is ServeIdentity.NONE)
    return DoctorFinding("identity", DoctorHealth.OK, f"{names}: {IDENTITY_NOT_PROVED}") if names else None


def suspended(serves: Sequence[Serve]) -> DoctorFinding | None:
    """Whether the driver can suspend what has `sleep_level = 3`. None: no serve has."""
    from stoker.domain.serve import SUSPENDED
    from stoker.fleet.suspend.suspension import unavailable_reason

    names = ", ".join(serve.name for serve in serves if serve.sleep_level == SUSPENDED)
    if not names:
        return None
    why = unavailable_reason()
    if not why:
        boxed = ", ".join(serve.name for serve in serves if serve.sleep_level == SUSPENDED and serve.container)
        note = (
            f"; processes of {boxed} usually belong to root, and Stoker runs as another user"
            if boxed and os.geteuid()
            else ""
        )
        return DoctorFinding("suspend", DoctorHealth.OK, f"{names}: the driver has what suspends processes{note}")
    detail = f"{names} is stopped instead of put to sleep: {why}"
    return DoctorFinding("suspend", DoctorHealth.WARN, detail, "or remove `sleep_level`", "nvidia-smi")


def judge(running: StatusAnswer | None) -> DoctorFinding | None:
    """Where the judge of live answers contradicts what a suite measured; None: nowhere, or nothing runs."""
    found = (running.routing or {}).get("contradictions", []) if running is not None else []
    if not found:
        return None
    detail = "; ".join(f"tier {one['tier']} at {one['class']}: {one['why']}" for one in found)
    tiers = " ".join(dict.fromkeys(str(one["tier"]) for one in found))
    fix = "measure the tier again, and the judge (`stoker eval validator JUDGE --class CLASS`); until then "
    fix += "the suite's verdict stands"
    return DoctorFinding("judge", DoctorHealth.WARN, detail, fix, f"stoker eval calibrate {tiers}")


def sick(running: StatusAnswer | None) -> DoctorFinding | None:
    """Serves that run, but not as configured; None: there is none, or nothing runs."""
    reports = [(serve, serve.watchdog) for serve in running.serves if serve.watchdog] if running is not None else []
    found = [(serve, report.details(False)) for serve, report in reports if report.health == "sick"]
    if not found:
        return None
    detail = "; ".join(f"{serve.name}: {why}" for serve, why in found)
    serve = next((serve for serve, _ in found if not elsewhere(serve)), found[0][0])
    if where := elsewhere(serve):
        return DoctorFinding("watchdog", DoctorHealth.WARN, detail, where, "stoker serves status")
    return DoctorFinding("watchdog", DoctorHealth.WARN, detail, "look into its log", f"stoker serves logs {serve.name}")


def paused(running: StatusAnswer | None) -> DoctorFinding | None:
    """Slots in which nothing is loaded; None: there is none, or nothing runs."""
    slots = [slot for slot in running.slots if slot.paused] if running is not None else []
    if not slots:
        return None
    detail = "; ".join(f"slot {slot.name}: {slot.paused}" for slot in slots)
    by_operator = [slot.name for slot in slots if "operator" in slot.paused_by]
    if not by_operator:
        return DoctorFinding("paused", DoctorHealth.OK, f"{detail}; models come back when that is over")
    command = f"stoker resume {by_operator[0]}" if len(by_operator) == 1 else "stoker resume"
    return DoctorFinding("paused", DoctorHealth.WARN, detail, "nothing is loaded there before a resume", command)


def yielding(slots: Sequence[Slot], probe: DeviceProbe) -> DoctorFinding | None:
    """Whether it can be found out which programs use the devices of slots that yield; None: no slot does."""
    names = [slot.name for slot in slots if slot.yields]
    if not names:
        return None
    where = f"slot{'s' * (len(names) > 1)} {' and '.join(names)}"
    if probe.devices() and probe.by_process() is not None:
        return DoctorFinding("yielding", DoctorHealth.OK, f"{where}: the driver says which processes use the devices")
    detail = f"{where}: the driver does not say which processes use the devices: programs count while they run"
    if any(slot.yields_above is not None for slot in slots):
        detail += ", and `yields_above` has no effect"
        fix = "name the programs in `yields_to`"
        return DoctorFinding("yielding", DoctorHealth.WARN, detail, fix, "stoker config check")
    return DoctorFinding("yielding", DoctorHealth.OK, detail)


def stored_responses(storage: ResponseStorage) -> DoctorFinding:
    """Whether clients of the Responses API can refer to earlier responses."""
    if storage.store:
        bounds = f"at most {figures.size(storage.max_bytes)}, for {figures.seconds(storage.keep)}"
        detail = f"stored, with prompts and answers: {bounds}"
    else:
        detail = "none are stored, so previous_response_id and conversation are refused ([responses] store = true)"
    return DoctorFinding("stored responses", DoctorHealth.OK, detail)


def devices(settings: Settings, found: Sequence[discover.Gpu], machine: MachineCards = MachineCards()) -> DoctorFinding:  # noqa: B008
    """Serves that cannot be restricted to the devices of their slot; slots with devices that do not exist, or whose
    numbers mean devices of several vendors; slots without serves.
    """
    from stoker.domain.serve import replicas_of, slots_of

    local = [(one, settings.slot(one.slot)) for serve in settings.serves for one in replicas_of(serve)]
    placed = [masks.masked(one, slot, machine) for one, slot in local if slot is not None and slot.cluster is None]
    if problems := [one.device_problem for one in placed if one.device_problem]:
        return DoctorFinding(
            "slots", DoctorHealth.FAIL, "; ".join(problems), "see the details, then look again", "stoker doctor"
        )  # fmt: skip
    known = [(card.vendor, card.index, card.uuid, card.address) for card in machine.cards]
    known += [(gpu.vendor, gpu.index, gpu.uuid, "") for gpu in found]
    seen = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in found or machine.cards) or "no GPU"
    words = [(slot.name, word) for slot in settings.slots for word in slot.devices]
    wanted = [(slot, word) for slot, word in words if not word.startswith(masks.PARTITION)]
    absent = [f"{slot}: {word}" for slot, word in wanted if not any(names_device(word, *one) for one in known)]
    if absent:
        return DoctorFinding(
            "slots", DoctorHealth.WARN, f"found {seen}; not found: {', '.join(absent)}",
            "correct `devices` of the slot, or install the driver", "nvidia-smi --list-gpus",
        )  # fmt: skip
    vendors = {(slot, word): {one[0] for one in known if names_device(word, *one)} for slot, word in wanted}
    several = [f"{slot}: {word}" for (slot, word), makers in vendors.items() if len(makers) > 1]
    unrestricted = [
        f"{serve.name}: {note}"
        for serve in settings.serves
        if (note := masks.note(serve, settings.slot(serve.slot), machine))
    ]
    if unrestricted:
        return DoctorFinding(
            "slots", DoctorHealth.WARN, "; ".join(unrestricted), "install it, then look again",
            "sudo apt install vulkan-tools",
        )  # fmt: skip
    if several:
        return DoctorFinding(
            "slots", DoctorHealth.WARN, f"these numbers mean a device of each vendor: {', '.join(several)}",
            "write the vendor or the PCI address, as in the rows of devices: `devices = [\"amd:0\"]`", "stoker doctor",
        )  # fmt: skip
    places = [place for serve in settings.serves for place in (serve.slot, *serve.slots) if place is not None]
    used = {name for place in places for name in slots_of(place)}
    unused = [slot.name for slot in settings.slots if slot.name not in used]
    if unused and settings.serves:
        return DoctorFinding(
            "slots", DoctorHealth.WARN, f"no serve uses: {', '.join(unused)}",
            "set `slot` of a serve to it, or remove the slot", "stoker config show",
        )  # fmt: skip
    number = len(settings.slots)
    return DoctorFinding("slots", DoctorHealth.OK, f"found {seen}; {counted(number, 'slot')}")


def cards(machine: MachineCards) -> list[DoctorFinding]:
    """One row for each device, with its number in every interface, and what is easily mistaken about these numbers."""
    findings = []
    for card in machine.cards:
        native = NATIVE[card.vendor]
        numbers = {native: card.index} | dict(card.numbers)
        counted_by = ", ".join(f"{api} {number}" for api, number in numbers.items())
        known = "" if Api.VULKAN in numbers or len(machine.cards) < 2 else ", Vulkan unknown"
        names = f"`{card.vendor}:{card.index}`, {card.uuid}"
        detail = f"{card.name or card.vendor}, {card.driver or 'unknown'} driver; {names}"
        findings.append(
            DoctorFinding(f"device {card.address or card.index}", DoctorHealth.OK, f"{detail}; {counted_by}{known}")
        )
    if pitfalls := masks.pitfalls(machine):
        findings.append(DoctorFinding("device numbers", DoctorHealth.OK, "; ".join(pitfalls)))
    return findings


def accelerators(probe: DeviceProbe, main: HostMemory, in_main_memory: Sequence[str] = ()) -> DoctorFinding:
    """Name, memory and driver of every accelerator, and whether the driver shows memory by process. `in_main_memory`:
    GPUs without memory of their own.
    """
    part = "accelerators"
    found, notes = probe.devices(), probe.notes()
    words = [
        f"{device.vendor} {device.index}: {device.name}, {_memory(device)}, {device.driver or 'unknown'} driver"
        for device in found
    ]
    where = "on the CPU"
    if in_main_memory:
        where = f"on {', '.join(in_main_memory)}, if the engine is built for it (Vulkan, ROCm, SYCL), or on the CPU,"
    detail = "; ".join(words) or f"none found: models run {where} with {figures.size(main.total)} of main memory"
    if notes:
        return DoctorFinding(part, DoctorHealth.WARN, f"{detail}; {'; '.join(notes)}", "see the details", "stoker fit")
    if any(device.is_unified for device in found):
        return DoctorFinding(
            part,
            DoctorHealth.OK,
            f"{detail}. Its memory is main memory, of which it may take so much: `sudo sysctl "
            "iogpu.wired_limit_mb=MEGABYTES` changes that until the next start. What a model takes is estimated, since "
            "macOS does not tell",
        )
    if found and probe.by_process() is None:
        return DoctorFinding(
            part, DoctorHealth.WARN, f"{detail}; the driver does not show who uses their memory",
            "without it Stoker uses `memory` of serves, and estimates", "stoker fit",
        )  # fmt: skip
    return DoctorFinding(part, DoctorHealth.OK, detail)


def _memory(device: Device) -> str:
    if device.total is None:
        return "memory unknown"
    total = figures.size(device.total)
    return total if device.free is None else f"{figures.size(device.free)} of {total} free"


def serve(serve: Serve, paths: Paths) -> DoctorFinding | None:
    """What would keep the serve from starting, checked as before a switch; None: nothing, or only its weights."""
    found = _start_problems(serve, paths)
    return _cannot_start(serve, found) if found else None


def serve_problems(serve: Serve, paths: Paths) -> list[str]:
    """All that would keep the serve from starting here, its weights included: what, and what to do about it."""
    found = weights(serve) if is_started_on_a_file(serve) else None
    of_weights = [f"{found.detail}: {found.fix}"] if found is not None and found.health is DoctorHealth.FAIL else []
    return [*of_weights, *_start_problems(serve, paths)]


def is_started_on_a_file(serve: Serve) -> bool:
    """Whether an engine is started here on a GGUF file that the configuration names."""
    from stoker.domain.serve import Driver

    return _reads_gguf(serve) and serve.driver is Driver.PROCESS


def _reads_gguf(serve: Serve) -> bool:
    from stoker.engines.record import Weights
    from stoker.engines.registry import engine_of

    return engine_of(serve.engine).weights is Weights.GGUF and bool(serve.model)


def _start_problems(serve: Serve, paths: Paths) -> list[str]:
    from stoker.domain.serve import Driver
    from stoker.engines.placement import placement_problems
    from stoker.fleet.supervision import start_problems

    if serve.driver is Driver.EXTERNAL:
        return []
    weights_alone = set(_weights_problems(serve))
    problems = start_problems.problems(serve, (serve.port or 0,), (), with_conflicts=False)
    found = [problem for problem in problems if problem not in weights_alone]
    if paths.placement:
        found += placement_problems(serve, paths.vault)
    if serve.driver is Driver.SYSTEMD and not os.path.isdir("/run/systemd/system"):
        found.append("the serve is a systemd unit, but systemd does not run on this machine")
    return found


def container(serve: Serve, paths: Paths) -> DoctorFinding | None:
    """What Docker says against a start: no image, a container of somebody else; or of one that runs: it drifted, or is
    paused. None: nothing.
    """
    from stoker.cli.commands.dry_run import container_lines
    from stoker.cli.console.container_note import container_note
    from stoker.cli.console.errors import RequestRefused

    try:
        container_lines(serve, paths)
    except RequestRefused as refusal:
        return _cannot_start(serve, [refusal.message])
    note = container_note(serve, paths)
    if not note:
        return None
    return DoctorFinding(
        f"serve {serve.name}", DoctorHealth.WARN, note,
        f"stop it, then create it again: stoker serves up {serve.name}",
        f"stoker serves down {serve.name}",
    )  # fmt: skip


def _cannot_start(serve: Serve, problems: Sequence[str]) -> DoctorFinding:
    own, of_it = f"serve '{serve.name}': ", f" of serve '{serve.name}'"
    detail = "; ".join(problem.removeprefix(own).replace(of_it, "") for problem in problems)
    return DoctorFinding(
        f"serve {serve.name}",
        DoctorHealth.FAIL,
        detail,
        "correct this; the serve cannot start",
        f"stoker serves up {serve.name} --dry-run",
    )


def _weights_problems(serve: Serve) -> list[str]:
    from stoker.engines import weight_files

    return weight_files.problems(serve) if _reads_gguf(serve) else []


def disk(part: str, folder: Path, command: str) -> DoctorFinding:
    """Room where models or logs go; of a directory that is not there yet, where it would be."""
    place = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    words = f"{folder}: {figures.size(free)} free"
    if free >= _TIGHT:
        return DoctorFinding(part, DoctorHealth.OK, words)
    health = DoctorHealth.FAIL if free < _FULL else DoctorHealth.WARN
    return DoctorFinding(part, health, words, "free some space, or point [paths] at another disk", command)


def containers(serves: Sequence[Serve]) -> DoctorFinding:
    """Docker, its daemon and a Compose, where a serve is a container; information only if none is."""
    import asyncio

    from stoker.domain.serve import Driver
    from stoker.fleet.drivers.docker import Docker, DockerFailed, DockerFault

    part, needed = "docker", any(serve.driver is Driver.COMPOSE for serve in serves)
    docker = Docker(os.environ)

    async def ask() -> tuple[str, bool]:
        return await docker.version(), await docker.has_compose()

    try:
        version, has_plugin = asyncio.run(ask())
    except DockerFailed as failure:
        if not needed:
            return DoctorFinding(part, DoctorHealth.OK, f"{failure.fault.value}; only container serves need it")
        command = {
            DockerFault.NOT_INSTALLED: (
                "brew install --cask docker" if is_macos() else "sudo apt install docker.io docker-compose"
            ),
            DockerFault.NO_PERMISSION: "sudo usermod -aG docker $(id -un)",
        }.get(failure.fault, "open -a Docker" if is_macos() else "sudo systemctl start docker")
        return DoctorFinding(part, DoctorHealth.FAIL, failure.fault.value, failure.message, command)
    compose = "docker compose" if has_plugin else "docker-compose" if shutil.which("docker-compose") else ""
    words = [word for serve in serves for word in serve.up or ()]
    if not compose and any(word == "compose" or word.endswith("docker-compose") for word in words):
        return DoctorFinding(
            part, DoctorHealth.FAIL, f"daemon {version}; no Docker Compose, and a serve's `up` needs it",
            "install the plugin, or docker-compose", "sudo apt install docker-compose",
        )  # fmt: skip
    return DoctorFinding(part, DoctorHealth.OK, f"daemon {version}; {compose or 'no Docker Compose'}")


def completion(home: Path) -> DoctorFinding:
    """Information only: whether the shell completes stoker's commands."""
    from stoker.cli.commands.completions import INSTALLED

    places = (*INSTALLED.values(), ".local/share/bash-completion/completions/stoker")
    there = next((place for place in places if (home / place).exists()), None)
    words = f"installed (~/{there})" if there else "not installed; for bash, zsh and fish: stoker --install-completion"
    return DoctorFinding("shell completion", DoctorHealth.OK, words)
