"""What every table of the file is."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, meaning: str) -> Any:
    """A key of the file. None: it may be left out, and the meaning says what happens then."""
    return Field(default=default, description=meaning, validate_default=default is not None)


class Section(BaseModel):
    """A table that knows its keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
