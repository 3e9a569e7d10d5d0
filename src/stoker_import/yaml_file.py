"""YAML as Go programs read it: booleans are `true` and `false` only, a key may occur once.

PyYAML by itself reads `on`, `off`, `yes` and `no` as booleans, and takes the last of two equal keys.
ruamel.yaml, which reads YAML 1.2, makes dates of text, takes the keys `1` and `true` for the same, and writes out
nested aliases without a bound: most of this would stay.
"""

from __future__ import annotations

import re
from typing import Any

from stoker.domain.errors import ClientError, ConfigError

LARGEST = 4 << 20
"""Bytes of a file. Real ones have a few kilobytes."""
MAX_VALUES = 200_000
"""Values of a document, with aliases written out: a few lines of nested aliases can stand for billions."""
DEEPEST = 64

_MISSING = "reading YAML needs PyYAML: type pip install 'stoker[import]'"
_NULL = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)$|[-+]?0[xX][0-9a-fA-F_]+$|[-+]?0[oO][0-7_]+$|[-+]?0[bB][01_]+$")
_OLD_OCTAL = re.compile(r"[-+]?0[0-7]+$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
_MERGE = "<<"


def load_yaml(text: str, name: str) -> Any:
    """The document of `text`: mappings with text as keys, lists, text, numbers, booleans, None.

    Raises ConfigError, with `name` and the line, if it is not YAML, has a key twice, or is too large or too deep.
    Raises ClientError, with the command to type, if PyYAML is not installed.
    """
    if len(text) > LARGEST:
        raise ConfigError([f"{name}: larger than {LARGEST >> 20} MiB, which no configuration is"])
    try:
        import yaml
    except ImportError as error:
        raise ClientError(_MISSING) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _Reader(name).value(node, 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ConfigError([f"{name}:{line}: not YAML: {error.problem or error.context}"]) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{name}: not YAML: {error}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{name}: nested more than {DEEPEST} levels deep"]) from error


class _Reader:
    """Builds values from nodes, with the rules of YAML 1.2's core schema."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_VALUES

    def value(self, node: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ConfigError([f"{self._name}: more than {MAX_VALUES} values, counting each alias"])
        if depth > DEEPEST:
            raise self._problem(node, f"nested more than {DEEPEST} levels deep")
        match node.id:
            case "mapping":
                return self._mapping(node, depth)
            case "sequence":
                return [self.value(one, depth + 1) for one in node.value]
        return self._scalar(node)

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar":
                raise self._problem(key_node, "a key that is no text")
            key = key_node.value
            if key == _MERGE and key_node.style is None:
                self._merge(merged, value_node, depth)
                continue
            if key in own:
                raise self._problem(key_node, f"the key '{key}' is there twice")
            own[key] = self.value(value_node, depth + 1)
        return own | {key: value for key, value in merged.items() if key not in own}

    def _merge(self, merged: dict[str, Any], node: Any, depth: int) -> None:
        """`<<`: keys of other mappings, where the mapping has none of its own. The first one wins."""
        for one in node.value if node.id == "sequence" else (node,):
            found = self.value(one, depth + 1)
            if not isinstance(found, dict):
                raise self._problem(node, "`<<` takes a mapping, or a list of mappings")
            for key, value in found.items():
                merged.setdefault(key, value)

    def _scalar(self, node: Any) -> Any:
        text = str(node.value)
        if node.style is not None:  # quoted, or a block
            return text
        if node.tag.startswith("!"):
            return text
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.match(text):
            return int(text.replace("_", ""), 0)
        if _OLD_OCTAL.match(text):  # not of YAML 1.2, but Go reads it so
            return int(text, 8)
        if _FLOAT.match(text):
            return float(text)
        if _SPECIAL.match(text):
            return float(text.replace(".", "", 1))
        return text

    def _problem(self, node: Any, text: str) -> ConfigError:
        return ConfigError([f"{self._name}:{node.start_mark.line + 1}: {text}"])
