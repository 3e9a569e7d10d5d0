"""What a child process gets of this machine: some of Stoker's variables, and a free port.

It sees the variables on the list, and those that its serve's `inherit_env` names. Keys, tokens and Stoker's own
settings pass only by their name: an engine runs other people's code over other people's prompts.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Collection, Container, Mapping

from stoker.domain.errors import StartFailed
from stoker.engines.registry import ENGINES
from stoker.system import ports

_NAMES = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "HF_HOME", "PYTHONUTF8")
)
_PREFIXES = (
    "LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "HF_HUB_", "XDG_", "OMP_", "NCCL_", "GLOO_", "UCX_", "TORCH",
    "PYTORCH_", "TRITON_", "FLASHINFER_",
)  # fmt: skip
"""Those of machines and of libraries; `Engine.variables` has more."""
_OWN = "STOKER_"
_ALL = "*"
_SECRET_ENDINGS = ("KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS", "KEY_FILE", "TOKEN_PATH")


def is_secret(name: str) -> bool:
    """Whether a variable of this name is likely to hold a secret."""
    return name.upper().endswith(_SECRET_ENDINGS)


def reaches_child(name: str) -> bool:
    """Whether a variable of Stoker's environment reaches a child."""
    of_engines = (prefix for engine in ENGINES.values() for prefix in engine.variables)
    return (name in _NAMES or name.startswith((*_PREFIXES, *of_engines))) and not is_secret(name)


def child_environment(
    ours: Mapping[str, str], serve: Mapping[str, str], engine: Mapping[str, str], inherited: Collection[str] = ()
) -> dict[str, str]:
    """The listed part of `ours`, what the serve's `inherit_env` adds, then its `env`, then what the engine needs."""
    found = {name: value for name, value in ours.items() if reaches_child(name) or _is_inherited(name, inherited)}
    return found | dict(serve) | dict(engine)


def _is_inherited(name: str, inherited: Collection[str]) -> bool:
    return name in inherited or (_ALL in inherited and not is_secret(name) and not name.startswith(_OWN))


_LOWEST = 20_000
_TRIES = 200


def free_port(host: str, taken: Container[int]) -> int:
    """A free port that is not in `taken`. Raises StartFailed.

    Chosen below the range that the kernel gives to outgoing connections: a port of that range can be lost to any
    connection before the engine binds it, and a probe of it may even meet itself (TCP's simultaneous open).
    """
    for _ in range(_TRIES):
        port = any_port()
        if port not in taken and ports.bind_error(host, port) is None:
            return port
    text = f"no free port on {host} between {_LOWEST} and {_highest()}: give the serve a fixed `port`"
    raise StartFailed(text)


def any_port() -> int:
    """A port of the same range, without a look at who has it: for other machines."""
    return _LOWEST + secrets.randbelow(_highest() - _LOWEST)


def _highest() -> int:
    highest = ports.first_ephemeral()
    return highest if highest - _LOWEST >= _TRIES else 65_536


def port_problem(host: str, port: int, is_here: bool = True) -> str | None:
    """Why nothing can listen there, as a clause that names the holder if it is known; None: the port is free.

    Unless `is_here`, the host may be another machine, or a name that exists only once the server runs.
    """
    failure = ports.bind_error(host, port)
    if failure is None:
        return None
    if not is_here and (failure == errno.EADDRNOTAVAIL or failure < 0):  # negative: there is no such name
        return None
    if failure == errno.EADDRINUSE:
        who = ports.holder(port)
        by = f" by process {who[0]} ({who[1]})" if who is not None else ""
        return f"port {port} is taken{by}: stop that process, or choose another `port`"
    if failure == errno.EACCES:
        return f"port {port} needs privileges: choose one above 1023"
    if failure == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: correct `host`"
    return f"port {port} on {host} cannot be used ({errno.errorcode.get(failure, failure)}): choose another `port`"
