"""Whether a running process is still right for its serve's configuration, across restarts of the control plane."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any

from stoker.domain.serve import IN_PLACE, Secret, Serve
from stoker.fleet.process.signing import KeySigner


def fingerprint(serve: Serve, signer: KeySigner) -> str:
    """The same for two serves exactly when one `launches_like` the other. 64 hex digits; keyed, it reveals no secret.

    Only what differs from the defaults goes in: a setting that a later version adds changes nothing by itself.
    """
    launch = {f.name: getattr(serve, f.name) for f in fields(serve) if f.name not in IN_PLACE}
    defaults = {f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(serve)}
    chosen = {name: value for name, value in launch.items() if value != defaults[name]}
    return signer.digest("launch", json.dumps(chosen, sort_keys=True, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a serve's fingerprint cannot hold {type(value).__name__}")
