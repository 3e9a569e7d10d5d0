"""`[gate.NAME]` and `[alias.NAME]`: aliases that move on evidence."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from stoker.config.tables.section import Section, setting
from stoker.config.tables.value_types import Duration, IfUndecidedWord, Name, PickWord, ServedName, SomeDuration
from stoker.domain.alias_choice import AliasChoice, Pick
from stoker.domain.gate import Alias, Gate, IfUndecided, condition
from stoker.domain.routing import is_reserved


def _condition(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text in quotes: `preflight`, or NAME OP VALUE like `ttft_p95 < 2s`")
    return condition(value).text


ConditionText = Annotated[str, BeforeValidator(_condition)]


class GateTable(Section):
    """Conditions that a serve has to meet before an alias may point at it."""

    conditions: list[ConditionText] = setting(
        [],
        "Required. Conditions that all have to hold: `preflight`, `canary`, `ttft_p95 < 2s`, `code-write.lower >= "
        "0.8`.",
    )
    max_age: SomeDuration | None = setting(
        None, "Age from which a measurement no longer counts. Left out: it counts until the serve changes."
    )


class AliasTable(Section):
    """A model name that points to one serve, until `stoker promote` moves it; or to several; or a name for `auto`."""

    serve: ServedName | None = setting(
        None,
        "Required without `serves`. The serve it points to until a promotion moves it; or `auto` or `auto:CLASS`, "
        "so that routing chooses a tier for each request.",
    )
    serves: list[ServedName] | None = setting(
        None, "Several serves or variants in order of preference, instead of `serve`. Each request goes to one of them."
    )
    pick: PickWord = setting(
        "first",
        "Which of `serves` answers. `first`: the first that can be used. `loaded`: the first of those that is loaded, "
        "else the first.",
    )
    gate: Name | None = setting(None, "The gate that a serve has to pass. Left out: a promotion needs `--force`.")
    watch: Duration = setting(
        "10m",
        "How long a promotion is watched, and rolled back if the serve fails its canary or live requests. `0s`: not "
        "at all.",
    )
    check_every: SomeDuration = setting("30s", "Time between two canaries while a promotion is watched.")
    if_undecided: IfUndecidedWord = setting(
        "back",
        "Where the alias points after a watch that saw too few canaries or answers to say that the model is well: "
        "`back` to the serve before, or it may `stay`.",
    )


class _OrText:
    """For editors: the table, or what would be its `serve`."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


def _as_table(value: object) -> object:
    return {"serve": value} if isinstance(value, str) else value


AliasRow = Annotated[AliasTable, BeforeValidator(_as_table), _OrText()]
"""`fast = "auto"` says the same as a table with that `serve`."""


def build_gates(tables: dict[str, GateTable]) -> tuple[Gate, ...]:
    return tuple(
        Gate(name, tuple(condition(text) for text in table.conditions), table.max_age) for name, table in tables.items()
    )


def build_aliases(tables: dict[str, AliasTable]) -> tuple[Alias, ...]:
    """Those that point to one serve."""
    return tuple(
        Alias(name, str(table.serve), table.gate, table.watch, table.check_every, IfUndecided(table.if_undecided))
        for name, table in tables.items()
        if table.serves is None and not is_reserved(str(table.serve))
    )


def build_choices(tables: dict[str, AliasTable]) -> tuple[AliasChoice, ...]:
    """Those that point to several serves."""
    return tuple(
        AliasChoice(name, tuple(table.serves), Pick(table.pick))
        for name, table in tables.items()
        if table.serves is not None
    )


def show_choice(choice: AliasChoice) -> dict[str, object]:
    """As the table would say it."""
    return {"serves": list(choice.serves), "pick": choice.pick.value}


def show_alias(alias: Alias) -> dict[str, object]:
    """As the table would say it, without what only choices have."""
    return AliasTable.show(alias, serves=None, pick=None)


def task_names(tables: dict[str, AliasTable]) -> dict[str, str]:
    """Those that point to `auto` or `auto:CLASS`, and which."""
    return {name: str(table.serve) for name, table in tables.items() if is_reserved(str(table.serve))}
