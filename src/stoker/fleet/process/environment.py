"""Which of Stoker's variables a child process sees: those on the list, and those that its serve's `inherit_env` names.

Keys, tokens and Stoker's own settings pass only by their name: an engine runs other people's code over other people's
prompts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stoker.engines.registry import ENGINES

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
