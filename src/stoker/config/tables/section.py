"""What every table of the file is."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, meaning: str, alias: str | None = None) -> Any:
    """A key of the file. None: it may be left out, and the meaning says what happens then.

    `alias`: what the file calls it, where Python has other plans for the word.
    """
    return Field(default=default, description=meaning, validate_default=default is not None, alias=alias)


class Section(BaseModel):
    """A table that knows its keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
