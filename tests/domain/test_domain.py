"""The nouns keep their promises."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from stoker.domain.decision import Decision
from stoker.domain.dialect import ENDPOINTS
from stoker.domain.errors import (
    CapacityError,
    ClientError,
    ConfigError,
    OurBug,
    StartFailed,
    StokerError,
    UpstreamError,
)
from stoker.domain.lease import Lease, Target
from stoker.domain.serve import Secret, Serve, Status


def test_a_secret_never_prints_its_value() -> None:
    secret = Secret("s3cret", "env:KEY")
    serve = Serve("a", key=secret)
    assert all("s3cret" not in text for text in (str(secret), repr(secret), f"{secret}", repr(serve), str([secret])))
    assert "env:KEY" in repr(secret)
    assert secret.reveal() == "s3cret"


def test_secrets_are_equal_by_value_alone() -> None:
    assert Secret("a", "env:X") == Secret("a", "file:Y")
    assert hash(Secret("a", "env:X")) == hash(Secret("a", "file:Y"))
    assert Secret("a", "env:X") != Secret("b", "env:X")
    assert Secret("a", "env:X") != "a"


def test_a_serve_answers_to_each_name_once() -> None:
    assert Serve("a").names() == ("a",)
    assert Serve("a", served_name="m", aliases=("x", "a", "m")).names() == ("a", "m", "x")


@pytest.mark.parametrize(
    ("change", "same"),
    [({"aliases": ("x",)}, True), ({"max_active": 9}, True), ({"queue": 1}, True), ({"status": Status.BLOCKED}, True),
     ({"idle_unload": 3.0}, True), ({"model": "/other"}, False), ({"context": 1}, False), ({"port": 9}, False),
     ({"env": {"A": "b"}}, False), ({"key": Secret("k", "env:K")}, False), ({"slot": "gpu"}, False)],
)  # fmt: skip
def test_only_what_the_process_sees_asks_for_a_restart(change: dict[str, Any], same: bool) -> None:
    assert Serve("a").launches_like(dataclasses.replace(Serve("a"), **change)) is same


def test_rejected_and_blocked_serves_need_force() -> None:
    assert {status for status in Status if Serve("a", status=status).needs_force} == {Status.REJECTED, Status.BLOCKED}


def test_a_lease_is_released_once() -> None:
    released: list[Lease] = []
    lease = Lease(1, "a", Target("h", 1, "", "m"), 0.0, 0.0, released.append)
    lease.release()
    lease.release()
    assert released == [lease]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(ClientError("m"), 400, "invalid_request"), (CapacityError("m"), 503, "no_capacity"),
     (StartFailed("m"), 503, "start_failed"), (UpstreamError("m"), 502, "upstream_error"),
     (OurBug("m"), 500, "internal_error"), (ClientError("m", status=404, code="c"), 404, "c")],
)  # fmt: skip
def test_an_error_knows_its_status_and_its_code(error: StokerError, status: int, code: str) -> None:
    assert (error.status, error.code, error.message, str(error)) == (status, code, "m", "m")


def test_no_capacity_always_says_when_to_come_again() -> None:
    assert CapacityError("m").retry_after == 1.0
    assert CapacityError("m", retry_after=9.0).retry_after == 9.0


def test_a_config_error_tells_every_problem() -> None:
    error = ConfigError(["one", "two"])
    assert error.problems == ["one", "two"]
    assert error.message == "one\ntwo"


def test_endpoints_are_keyed_by_their_path() -> None:
    assert all(path == endpoint.path for path, endpoint in ENDPOINTS.items())
    assert all(path.startswith(("/v1/", "/api/", "/sdapi/v1/")) for path in ENDPOINTS)


def test_decisions_do_not_share_their_lists() -> None:
    first, second = Decision("a", 0.0, "/"), Decision("b", 0.0, "/")
    first.candidates.append(None)  # type: ignore[arg-type]
    assert second.candidates == []
