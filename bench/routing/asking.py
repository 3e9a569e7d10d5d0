"""Fixtures put through the front door, one after the other, and graded by the suites' own checkers."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from bench.routing.routing_stoker import CLOUD, COSTS, RoutingStoker
from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.translate import answer_reader
from stoker_lab.suites.fixture import Fixture
from stoker_lab.suites.grading import SAMPLING, check_in_sandbox


class Cell(msgspec.Struct, frozen=True):
    """One fixture, asked once."""

    fixture: str
    task_class: str
    """As it is meant."""
    tier: str
    """That answered; empty: none did."""
    passed: bool
    cost: float
    """By the usage that was reported, thrown-away attempts included."""
    seconds: float
    failure: str = msgspec.field(default="", name="told")
    """Why it did not pass."""
    routed_class: str = msgspec.field(default="", name="found")
    """The class by which it was routed; empty: it named its tier."""
    why: str = ""
    """What spoke for that class."""
    attempts: tuple[str, ...] = ()
    """Tiers that were tried, the one that served last."""

    @property
    def is_local(self) -> bool:
        return self.tier not in ("", CLOUD)


def ask_tier(stoker: RoutingStoker, tier: str, fixtures: Iterable[Fixture]) -> list[Cell]:
    """Each of them to that tier by name."""

    def cell(one: Fixture, reply: Reply) -> Cell:
        usage = reply.body.get("usage") or {}
        cost = COSTS[tier].of(int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0)))
        passed, failure = reply.grade(one)
        return Cell(one.id, one.task_class, tier, passed, cost, reply.seconds, failure)

    return [cell(one, reply) for one, reply in _asked(stoker, fixtures, lambda one: tier)]


def ask_auto(stoker: RoutingStoker, fixtures: list[Fixture], declares: bool) -> list[Cell]:
    """Each of them as `auto`, or as `auto:CLASS`. Who served it, and at what cost, the decisions say."""
    model: Callable[[Fixture], str] = (lambda one: f"auto:{one.task_class}") if declares else (lambda one: "auto")
    replies = list(_asked(stoker, fixtures, model))
    decisions = stoker.decisions(len(replies) + 50)
    return [_routed(one, reply, decisions.get(reply.id, {}).get("routed") or {}) for one, reply in replies]


def _routed(one: Fixture, reply: Reply, routed: dict[str, Any]) -> Cell:
    attempts = routed.get("attempts", [])
    passed, failure = reply.grade(one)
    cost = sum(each["cost"] or 0.0 for each in attempts)
    why = ", ".join([routed.get("source", ""), *routed.get("notes", [])])
    tried = tuple(each["tier"] for each in attempts)
    routed_class = routed.get("task", "")
    return Cell(
        one.id, one.task_class, routed.get("tier", ""), passed, cost, reply.seconds, failure, routed_class, why, tried
    )


class Reply(msgspec.Struct):
    """What came back over HTTP."""

    status: int
    id: str
    seconds: float
    body: dict[str, Any]

    def grade(self, one: Fixture) -> tuple[bool, str]:
        """A refusal or an error is a question that was not answered rightly."""
        if self.status != 200:
            return False, f"status {self.status}"
        grade = check_in_sandbox(one.check, answer_reader(Dialect.CHAT, Losses()).read_whole(self.body))
        return grade.passed, grade.reason


def _asked(
    stoker: RoutingStoker, fixtures: Iterable[Fixture], model: Callable[[Fixture], str]
) -> Iterator[tuple[Fixture, Reply]]:
    """One at a time over one connection: nobody's answer depends on who else is being answered."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {stoker.key}"}
    connection = http.client.HTTPConnection("127.0.0.1", stoker.port, timeout=120)
    with contextlib.closing(connection):
        for number, one in enumerate(fixtures, 1):
            body = {**SAMPLING, "stream": False, **one.request, "model": model(one)}
            began = time.perf_counter()
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            reply = connection.getresponse()
            text = reply.read()
            seconds = time.perf_counter() - began
            document = json.loads(text) if text.startswith(b"{") else {}
            yield one, Reply(reply.status, reply.getheader("x-request-id", ""), seconds, document)
            if number % 250 == 0:
                sys.stderr.write(f"  {number} asked as {body['model']}\n")
