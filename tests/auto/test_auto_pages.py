"""What operators ask of routing and promotions, through the front door."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from tests.gateway.test_admin import KEYS, Office, office

from stoker.gateway.operations import Page
from stoker_auto.operations import OPERATIONS
from stoker_auto.pages import AutoPages
from stoker_auto.promotion.promotions import Promotions


class Moves(Promotions):
    """Aliases that can only be reset."""

    def __init__(self) -> None:
        pass

    async def reset(self, alias: str) -> dict[str, Any]:
        return {"alias": alias, "serve": "a", "previous": "b"}


class AutoOffice(Office):
    def pages(self) -> Iterator[Page]:
        pages = AutoPages(lambda: None, Moves(), lambda: self.flow.settings.names, self.store)
        return (Page(operation, pages.answer) for operation in OPERATIONS)


@office(AutoOffice, keys=KEYS)
async def test_routing_is_told_to_observers_and_without_tiers_what_to_do(stage: Office) -> None:
    reply = await stage.say("routing", method="GET", authorization="Bearer k-eye")
    assert (reply.status, reply.json()["error"]["code"]) == (404, "no_tiers")
    assert "[[tier]]" in reply.json()["error"]["message"]
    assert (await stage.say("routing", method="GET", authorization="Bearer k-user")).status == 403


@office(AutoOffice)
async def test_an_alias_is_reset_and_the_old_name_of_the_verb_says_that_it_goes_away(stage: Office) -> None:
    logged: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        logged.append(record.getMessage())
        return False

    logging.getLogger("stoker.admin").addFilter(keep)
    reply = await stage.say("reset", {"alias": "al"})
    assert (reply.status, reply.json()["serve"], reply.header("deprecation")) == (200, "a", None)
    assert logged == []
    old = await stage.say("demote", {"alias": "al"})
    assert old.json() == reply.json()
    assert (old.header("deprecation"), old.header("link")) == ("true", '</admin/reset>; rel="successor-version"')
    logging.getLogger("stoker.admin").removeFilter(keep)
    assert logged == ["/admin/demote is deprecated and goes away in 0.2.0: use /admin/reset"]


@office(AutoOffice)
async def test_a_field_of_another_verb_is_ignored_and_one_that_none_has_is_refused(stage: Office) -> None:
    assert (await stage.say("reset", {"alias": "al", "serve": "a", "drain_timeout": 5, "prompt": "x"})).status == 200
    assert (await stage.say("drain", {"serve": "a", "reason": "tidying", "task": None})).status == 200
    for verb in ("reset", "drain"):
        reply = await stage.say(verb, {"alias": "al", "server": "a"})
        assert (reply.status, "`server`" in reply.json()["error"]["message"]) == (400, True)
