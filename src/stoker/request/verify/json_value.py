"""JSON text to its value, strictly after RFC 8259, or the reason why it is none."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, NoReturn

import msgspec

_decode = msgspec.json.decode
LONG_NUMBER = 400
"""Digits beyond which an integer is read as a float: Python refuses to read very long ones."""


class InvalidJson(Enum):
    """Why there is no value."""

    SYNTAX = "syntax"
    DEPTH = "depth"
    """Nested more deeply than a parser can follow: about a thousand levels."""


def read_json(text: str) -> Any:
    """The value, or an `InvalidJson`. Linear in the text; raises nothing."""
    try:
        return _decode(text)
    except RecursionError:
        return InvalidJson.DEPTH
    except (msgspec.MsgspecError, UnicodeError):
        pass
    try:  # half surrogates and very long numbers are JSON all the same
        return json.loads(text, parse_constant=_refuse, parse_int=_integer)
    except RecursionError:
        return InvalidJson.DEPTH
    except ValueError:
        return InvalidJson.SYNTAX


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are Python's, not JSON's


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < LONG_NUMBER else float(digits)
