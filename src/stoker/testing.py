"""The testing kit by its former name: what is imported from here comes from `stoker_lab.testing`."""

from __future__ import annotations

from importlib.util import find_spec

_kit = find_spec("stoker_lab.testing")
__path__ = list(_kit.submodule_search_locations or ()) if _kit is not None else []
