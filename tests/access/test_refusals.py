"""Refusals are counted; wrong keys are logged now and then and answered ever later; nothing grows without end."""

from __future__ import annotations

import logging

import pytest

from stoker.access.refusals import (
    FORGIVEN_AFTER,
    LOG_EVERY,
    MAX_ADDRESSES,
    MAX_DELAY,
    MAX_LINES,
    MAX_WAITING,
    UNDELAYED,
    BadKey,
    Refusals,
    origin_of,
)  # fmt: skip
from stoker.domain.errors import ClientError
from stoker_lab.testing.clock import FakeClock


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.counted: list[tuple[str, str]] = []
        self.refusals = Refusals(lambda reason, origin: self.counted.append((reason, origin)), self.clock.now)

    def wrong(self, address: str = "10.0.0.7", key: str = "wrong") -> float:
        """The delay of one answer, which then goes out."""
        error, seconds = self.refusals.record(BadKey(key[:4]), address)
        assert error.status == 401
        if seconds:
            self.refusals.answered()
        return seconds


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_every_refusal_is_counted_by_reason_and_by_where_it_came_from(scene: Scene) -> None:
    scene.refusals.record(BadKey(""), "127.0.0.1")
    scene.refusals.record(BadKey("abcd"), "192.168.1.4")
    scene.refusals.record(ClientError("x", code="foreign_host", status=403), "8.8.8.8")
    scene.refusals.record(ClientError("x", code="no_route", status=404), "")
    assert scene.counted == [
        ("missing_key", "loopback"), ("wrong_key", "private"), ("foreign_host", "public"), ("no_route", "socket"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("address", "origin"),
    [("127.0.0.1", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"), ("10.1.1.1", "private"),
     ("fe80::1%eth0", "private"), ("1.1.1.1", "public"), ("2606:4700::1", "public"), ("odd", "public"), ("", "socket")],
)  # fmt: skip
def test_an_address_is_told_by_its_class(address: str, origin: str) -> None:
    assert origin_of(address) == origin


def test_the_first_wrong_keys_are_answered_at_once_and_then_ever_later(scene: Scene) -> None:
    assert [scene.wrong() for _ in range(UNDELAYED)] == [0.0] * UNDELAYED
    later = [scene.wrong() for _ in range(10)]
    assert later == sorted(later)
    assert later[0] > 0
    assert later[-1] == MAX_DELAY


def test_another_address_is_not_slowed(scene: Scene) -> None:
    for _ in range(3 * UNDELAYED):
        scene.wrong("10.0.0.7")
    assert scene.wrong("10.0.0.8") == 0.0


def test_one_customer_s_ipv6_addresses_are_one(scene: Scene) -> None:
    delays = [scene.wrong(f"2606:4700::{n:x}") for n in range(UNDELAYED + 1)]
    assert delays[-1] > 0
    assert scene.wrong("2606:4700:0:1::1") == 0.0


def test_wrong_keys_are_forgiven_with_time(scene: Scene) -> None:
    for _ in range(2 * UNDELAYED):
        scene.wrong()
    scene.clock.advance(2 * UNDELAYED * FORGIVEN_AFTER)
    assert scene.wrong() == 0.0


def test_a_missing_key_is_no_guess(scene: Scene) -> None:
    assert [scene.refusals.record(BadKey(""), "10.0.0.7")[1] for _ in range(5 * UNDELAYED)] == [0.0] * 5 * UNDELAYED


def test_answers_that_wait_are_bounded(scene: Scene) -> None:
    for _ in range(UNDELAYED):
        scene.wrong()
    for _ in range(MAX_WAITING):
        assert scene.refusals.record(BadKey("abcd"), "10.0.0.7")[1] > 0
    error, seconds = scene.refusals.record(BadKey("abcd"), "10.0.0.7")
    assert (error.status, seconds) == (429, 0.0)
    assert error.retry_after
    scene.refusals.answered()
    assert scene.refusals.record(BadKey("abcd"), "10.0.0.7")[1] > 0


def test_addresses_are_not_remembered_without_end(scene: Scene) -> None:
    for _ in range(2 * UNDELAYED):
        scene.wrong("10.0.0.7")
    for n in range(MAX_ADDRESSES):
        scene.wrong(f"10.1.{n // 256}.{n % 256}")
    assert scene.wrong("10.0.0.7") == 0.0, "it was forgotten to make room"


def test_the_log_has_the_address_and_four_characters_and_is_not_flooded(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stoker.gateway.http_api"):
        for _ in range(50):
            scene.wrong(key="sk-secret")
        assert [record.getMessage() for record in caplog.records] == [
            "refused: 10.0.0.7 came with a wrong key that begins with 'sk-s'"
        ]
        scene.clock.advance(LOG_EVERY)
        scene.refusals.record(BadKey(""), "10.0.0.7")
        assert caplog.messages[1] == "refused: 10.0.0.7 came with no key, and 49 more since the last line about it"
        scene.clock.advance(LOG_EVERY)
        for n in range(500):
            scene.wrong(f"10.2.{n // 256}.{n % 256}")
        assert len(caplog.messages) == 2 + MAX_LINES


def test_a_key_cannot_write_a_line_of_its_own(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "stoker.gateway.http_api"):
        scene.wrong(key="\x1b[\n\x9b")
    assert caplog.messages[0].endswith("'\\u001b[\\u000a\\u009b'")
