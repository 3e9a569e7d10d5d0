"""What changed between two JSON documents, as a merge patch (RFC 7396) that also reaches into lists of named entries.

An object in a patch, where the document has a list, changes the entries of the list by their `name`. Any other list
is sent whole. As in RFC 7396, null removes a member: readers take a missing member for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NoPatch(Exception):
    """A list became an object, which no patch can say: send the document."""


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What `apply_patch` needs to make `new` of `old`, apart from members that are null. Raises NoPatch."""
    patch: dict[str, Any] = {name: None for name, value in old.items() if name not in new and value is not None}
    for name, value in new.items():
        before = old.get(name)
        if before != value:
            patch[name] = _change(before, value)
    return patch


def apply_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The document after the patch. Neither argument is changed; the result shares what did not change."""
    result = dict(document)
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, dict):
            result[name] = _applied(result.get(name), change)
        else:
            result[name] = change
    return result


def _change(before: Any, value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(before, list):
            raise NoPatch
        return merge_patch(before, value) if isinstance(before, dict) else value
    if isinstance(value, list) and isinstance(before, list):
        names = _names(before)
        if names and names == _names(value):
            pairs = zip(names, before, value, strict=True)
            return {name: merge_patch(one, other) for name, one, other in pairs if one != other}
    return value


def _applied(old: Any, change: Mapping[str, Any]) -> Any:
    if isinstance(old, list):
        return [apply_patch(one, change[one["name"]]) if one["name"] in change else one for one in old]
    return apply_patch(old if isinstance(old, dict) else {}, change)


def _names(entries: list[Any]) -> list[str]:
    """Of a list in which each entry has another name; else empty."""
    named = (one["name"] for one in entries if isinstance(one, dict) and isinstance(one.get("name"), str))
    names: list[str] = list(named)
    return names if len(set(names)) == len(entries) else []
