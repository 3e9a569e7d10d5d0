"""`[gate.NAME]` and `[alias.NAME]`: aliases that move on evidence."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stoker.domain.alias_choice import AliasChoice, Pick
from stoker.domain.definition import show
from stoker.domain.gate import Alias, IfUndecided
from stoker.domain.kinds import Duration, Name, OrText, ServedName, SomeDuration, setting
from stoker.domain.routing import is_reserved


class AliasTable(msgspec.Struct, frozen=True):
    """A model name that points to one serve, until `stoker promote` moves it; or to several; or a name for `auto`."""

    serve: Annotated[
        ServedName | None,
        setting(
            "Required without `serves`. The serve it points to until a promotion moves it; or `auto` or `auto:CLASS`, "
            "so that routing chooses a tier for each request."
        ),
    ] = None
    serves: Annotated[
        tuple[ServedName, ...] | None,
        setting(
            "Several serves or variants in order of preference, instead of `serve`. Each request goes to one of them."
        ),
    ] = None
    pick: Annotated[
        Pick,
        setting(
            "Which of `serves` answers. `first`: the first that can be used. `loaded`: the first of those that is "
            "loaded, else the first."
        ),
    ] = Pick.FIRST
    gate: Annotated[
        Name | None, setting("The gate that a serve has to pass. Left out: a promotion needs `--force`.")
    ] = None
    watch: Annotated[
        Duration,
        setting(
            "How long a promotion is watched, and rolled back if the serve fails its canary or live requests. `0s`: "
            "not at all."
        ),
    ] = 600.0
    check_every: Annotated[SomeDuration, setting("Time between two canaries while a promotion is watched.")] = 30.0
    if_undecided: Annotated[
        IfUndecided,
        setting(
            "Where the alias points after a watch that saw too few canaries or answers to say that the model is well: "
            "`back` to the serve before, or it may `stay`."
        ),
    ] = IfUndecided.BACK


AliasRow = Annotated[AliasTable, OrText("serve")]
"""`fast = "auto"` says the same as a table with that `serve`."""


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
    return show(alias, AliasTable, serves=None, pick=None)


def task_names(tables: dict[str, AliasTable]) -> dict[str, str]:
    """Those that point to `auto` or `auto:CLASS`, and which."""
    return {name: str(table.serve) for name, table in tables.items() if is_reserved(str(table.serve))}
