"""The base class of all tables."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, meaning: str, alias: str | None = None) -> Any:
    """A key of the file. Default None: the key may be left out, and `meaning` says what happens then.

    `alias`: its name in the file, if that is a word of Python.
    """
    return Field(default=default, description=meaning, validate_default=default is not None, alias=alias)


class Section(BaseModel):
    """A table of the file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Itself: it never changes. pydantic copies each default that is a table, and a file has hundreds of them."""
        return self

    @classmethod
    def show(cls, record: object, **own: Any) -> dict[str, Any]:
        """`record` in the form of the file. `own`: values of keys that are not attributes of the same name."""
        values = {name: own[name] if name in own else getattr(record, name) for name in cls.model_fields}
        return cls.model_construct(**values).model_dump(mode="json", by_alias=True, warnings=False)
