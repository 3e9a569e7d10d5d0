"""`[compat]`: the paths of other programs, for clients that load and unload models by them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.config.local_address import is_loopback
from stoker.domain.access import CompatPaths
from stoker.domain.kinds import Pattern, setting


class CompatTable(msgspec.Struct, frozen=True):
    """Paths of other programs that Stoker answers, beside its own."""

    llama_swap: Annotated[
        bool | None,
        setting(
            "Those of llama-swap: `/running`, `/unload`, `/logs` and others. Default: only if `front_door.host` is a "
            "loopback address."
        ),
    ] = None
    llama_cpp: Annotated[
        bool | None,
        setting(
            "Those of llama.cpp's router: `/models/load`, `/models/unload`, `/props` and others, and the `status` of "
            "each model in `/v1/models`. Default: as for `llama_swap`."
        ),
    ] = None
    any_upstream_path: Annotated[
        bool,
        setting(
            "Keys of scope admin may use every path below `/upstream/SERVE/`, as with llama-swap; else only those that "
            "change nothing in the engine."
        ),
    ] = False
    upstream_ignore: Annotated[
        tuple[Pattern, ...],
        setting(
            "Regular expressions. A path below `/upstream/SERVE` that one of them matches loads no model: if the model "
            "is not loaded, the answer is 409."
        ),
    ] = ()


def build_compat(table: CompatTable, host: str) -> CompatPaths:
    """`host`: where Stoker listens."""
    default = is_loopback(host)
    return CompatPaths(
        default if table.llama_swap is None else table.llama_swap,
        default if table.llama_cpp is None else table.llama_cpp,
        table.any_upstream_path,
        tuple(table.upstream_ignore),
    )
