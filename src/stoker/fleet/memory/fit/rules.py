"""Which quantisation suits which GPU: evaluates the dated rules of rules.toml."""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any

from stoker.fleet.memory.devices import Device
from stoker.fleet.memory.fit.estimate import Shape

CONDITIONS = frozenset(
    ("vendor", "arch", "arch_from", "arch_below", "precision", "moe", "engine", "hybrid", "latent", "kv_offload")
)
_SIXTEEN = ("F32", "F16", "BF16")


class RemarkKind(StrEnum):
    GOOD = "good"
    POOR = "poor"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule says about one model on one device."""

    rule: str
    kind: RemarkKind
    says: str
    date: datetime.date
    source: str


@dataclass(frozen=True, slots=True)
class RuleSubject:
    """What rules can match. None: unknown, and matches no condition."""

    vendor: str
    arch: str | None
    precision: str
    """`nvfp4`, `fp8`, `fp8-block`, `awq`, `gptq`, `int4`, `mxfp4`, `autoround`, `16-bit`, `gguf`..."""
    moe: bool
    engine: str
    hybrid: bool = False
    """Some layers keep a state instead of a cache."""
    latent: bool = False
    """Its cache is one vector for all heads (MLA)."""
    kv_offload: bool = False


@functools.cache
def table() -> Mapping[str, Any]:
    """rules.toml as it is shipped."""
    text = resources.files("stoker.fleet.memory.fit").joinpath("rules.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def subject(
    device: Device, shape: Shape, engine: str, quantization: str | None = None, kv_offload: int = 0
) -> RuleSubject:
    """`quantization`: what the engine makes of 16-bit weights while loading; `kv_offload`: bytes of main memory for
    its cache.
    """
    if shape.format == "gguf":
        precision = "gguf"
    elif shape.precision in _SIXTEEN:
        precision = (quantization or "16-bit").lower()
    elif shape.precision == "FP8" and shape.block_size:
        precision = "fp8-block"
    else:
        precision = shape.precision.lower()
    return RuleSubject(
        device.vendor, device.arch, precision, shape.is_moe, engine, shape.is_hybrid, shape.is_latent, bool(kv_offload)
    )


def remarks(about: RuleSubject) -> list[Remark]:
    """Every rule that holds, the grave ones first."""
    found = [
        Remark(rule["id"], RemarkKind(rule["kind"]), rule["says"], rule["date"], rule["source"])
        for rule in table()["rule"]
        if holds(rule["when"], about)
    ]
    return sorted(found, key=lambda remark: list(RemarkKind).index(remark.kind), reverse=True)


def suits(about: RuleSubject) -> str | None:
    """Recommended precisions for such a device; None: no rule."""
    return next((entry["says"] for entry in table()["suits"] if holds(entry["when"], about)), None)


def holds(when: Mapping[str, Any], about: RuleSubject) -> bool:
    """Whether every condition is fulfilled. Raises ValueError for a condition that does not exist."""
    unknown = set(when) - CONDITIONS
    if unknown:
        raise ValueError(f"rules.toml: no such condition: {', '.join(sorted(unknown))}")
    arch = _version(about.arch)
    return (
        ("vendor" not in when or about.vendor in _several(when["vendor"]))
        and ("arch" not in when or (about.arch or "").startswith(when["arch"]))
        and ("arch_from" not in when or (arch is not None and arch >= _known(when["arch_from"])))
        and ("arch_below" not in when or (arch is not None and arch < _known(when["arch_below"])))
        and ("precision" not in when or about.precision in _several(when["precision"]))
        and all(
            key not in when or getattr(about, key) is when[key] for key in ("moe", "hybrid", "latent", "kv_offload")
        )
        and ("engine" not in when or about.engine in _several(when["engine"]))
    )


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _known(text: str) -> tuple[int, int]:
    found = _version(text)
    if found is None:
        raise ValueError(f"rules.toml: {text!r} is not a compute capability")
    return found
