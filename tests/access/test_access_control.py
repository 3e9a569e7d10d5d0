"""Who may come in: Host, Origin, key, scope, in this order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.access.access_control import MAX_KNOWN_HOSTS, AccessControl, refuse_repeated
from stoker.access.caller import Caller, require
from stoker.access.refusals import BadKey
from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret, Serve, Translation

LOCAL = {b"host": b"localhost:8000"}


def key(name: str = "team", value: str = "k-1", **fields: Any) -> Key:
    return Key(name, Secret(value, "env:X"), **fields)


def door(*keys: Key, **fields: Any) -> AccessControl:
    return AccessControl(ListenSettings(keys=keys, **fields))


def refused(door: AccessControl, **headers: str) -> ClientError:
    given = {**LOCAL, **{name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}}
    with pytest.raises(ClientError) as caught:
        door.admit(given, False)
    return caught.value


# -- Host and Origin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "::1", "box.example:8000", " localhost "],
)
def test_loopback_and_allowed_hosts_are_let_in(host: str) -> None:
    allowed = door(allowed_hosts=("Box.example",))
    assert allowed.admit({b"host": host.encode()}, False).key.scope is Scope.ADMIN


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "", "192.168.0.7",
             "localhost:1:2", "[::1", "[::2]", "evil.example@localhost"],
)  # fmt: skip
def test_a_foreign_host_is_refused_even_without_keys(host: str) -> None:
    """A name that was rebound to 127.0.0.1 must not reach a keyless loopback."""
    error = refused(door(), host=host)
    assert (error.status, error.code) == (403, "foreign_host")


def test_no_host_at_all_is_refused() -> None:
    with pytest.raises(ClientError):
        door().admit({}, False)


@pytest.mark.parametrize(
    ("bound", "host", "is_in"),
    [("10.0.0.5", "10.0.0.5:8000", True), ("10.0.0.5", "10.0.0.6", False), ("fd00::5", "[fd00::5]:8000", True),
     ("0.0.0.0", "10.9.8.7:8000", True), ("0.0.0.0", "[fd00::1]:1", True), ("::", "10.9.8.7", True),
     ("0.0.0.0", "evil.example", False), ("Box.Example", "box.example", True)],
)  # fmt: skip
def test_the_address_that_is_listened_on_is_allowed(bound: str, host: str, is_in: bool) -> None:
    """An address needs no name service: it cannot have been rebound."""
    if is_in:
        assert door(host=bound).admit({b"host": host.encode()}, False)
    else:
        assert refused(door(host=bound), host=host).code == "foreign_host"


def test_spellings_of_host_are_not_remembered_without_end() -> None:
    open_to_all = door(host="0.0.0.0")
    for n in range(2 * MAX_KNOWN_HOSTS):
        assert open_to_all.admit({b"host": b"10.0.0.1:%d" % n}, False)
    assert open_to_all.remembered == MAX_KNOWN_HOSTS
    assert refused(open_to_all, host="evil.example").status == 403


def test_a_host_that_was_let_in_before_is_let_in_again_and_its_origin_is_looked_at_all_the_same() -> None:
    known = door()
    assert known.admit(LOCAL, False) is known.admit(LOCAL, False)
    assert refused(known, origin="http://evil.example").code == "foreign_origin"


def test_a_star_allows_any_host() -> None:
    assert door(allowed_hosts=("*",)).admit({b"host": b"any.example"}, False)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "https://localhost", "x", ""]
)
def test_a_foreign_origin_is_refused_even_without_keys(origin: str) -> None:
    error = refused(door(), origin=origin)
    assert (error.status, error.code) == (403, "foreign_origin")


@pytest.mark.parametrize("origin", ["http://localhost:8000", "HTTPS://App.Example"])
def test_the_same_and_allowed_origins_come_in(origin: str) -> None:
    allowed = door(allowed_origins=("https://App.example",))
    assert allowed.admit({**LOCAL, b"origin": origin.encode()}, False)


def test_the_host_is_checked_before_the_key() -> None:
    assert refused(door(key()), host="evil.example").status == 403


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{b"authorization": b"Bearer k-1"}, {b"authorization": b"bearer  k-1 "}, {b"x-api-key": b"k-1"},
                {b"authorization": b"Basic zzz", b"x-api-key": b"k-1"},
                {b"authorization": b"Bearer ", b"x-api-key": b"k-1"},
                {b"authorization": b"Bearer", b"x-api-key": b"k-1"},
                {b"authorization": b"", b"x-api-key": b"k-1"}],
)  # fmt: skip
def test_a_key_is_taken_from_either_header(headers: dict[bytes, bytes]) -> None:
    assert door(key("other", "k-2"), key()).admit({**LOCAL, **headers}, False).key.name == "team"


@pytest.mark.parametrize("given", ["", "k-", "k-11", "K-1", "Bearer"])
def test_a_wrong_key_is_401_and_is_not_repeated(given: str) -> None:
    error = refused(door(key()), authorization=f"Bearer {given}")
    assert (error.status, error.code) == (401, "bad_key")
    assert "k-1" not in error.message
    assert not given or given in ("Bearer", "k-") or given not in error.message


def test_a_wrong_bearer_is_not_made_good_by_the_other_header() -> None:
    assert refused(door(key()), authorization="Bearer wrong", x_api_key="k-1").status == 401


@pytest.mark.parametrize(("given", "begins"), [("", ""), ("abcdefgh", "abcd"), ("ab", "ab")])
def test_of_a_wrong_key_four_characters_are_known_for_the_log(given: str, begins: str) -> None:
    error = refused(door(key()), x_api_key=given)
    assert isinstance(error, BadKey)
    assert (error.begins, error.reason) == (begins, "wrong_key" if begins else "missing_key")


@pytest.mark.parametrize(
    "name", ["authorization", "x-api-key", "host", "content-type", "content-encoding", "origin", "sec-fetch-site"]
)
def test_a_header_that_something_is_decided_by_may_be_there_once(name: str) -> None:
    once = [(b"accept", b"a"), (b"accept", b"b"), (name.encode(), b"x")]
    refuse_repeated(once)
    with pytest.raises(ClientError) as caught:
        refuse_repeated([*once, (name.encode(), b"x")])
    assert (caught.value.status, caught.value.code) == (400, "repeated_header")
    assert name in caught.value.message


def test_a_missing_key_says_how_to_send_one() -> None:
    assert "x-api-key" in refused(door(key())).message


def test_an_empty_key_lets_nobody_in() -> None:
    assert refused(door(key(value=""))).status == 401


def test_the_control_socket_needs_neither_host_nor_key() -> None:
    assert door(key()).admit({}, True).key.scope is Scope.ADMIN


def test_auth_none_asks_for_no_key_though_some_are_there() -> None:
    assert door(key(), auth=False).admit(LOCAL, False).key.name == ""


@pytest.mark.parametrize("has", Scope)
@pytest.mark.parametrize("needs", Scope)
def test_a_scope_includes_the_smaller_ones(has: Scope, needs: Scope) -> None:
    caller = Caller(key(scope=has))
    if has >= needs:
        require(caller, needs)
    else:
        with pytest.raises(ClientError) as caught:
            require(caller, needs)
        assert caught.value.status == 403
        assert "team" in caught.value.message


def test_a_key_has_its_own_limit_and_places_come_back() -> None:
    caller = Caller(key(max_active=2))
    caller.enter()
    second = caller.enter()
    with pytest.raises(ClientError) as caught:
        caller.enter()
    assert (caught.value.status, caught.value.retry_after) == (429, 1.0)
    caller.leave(second)
    caller.enter()
    assert caller.active == 2


def test_a_limit_of_zero_lets_nothing_run() -> None:
    with pytest.raises(ClientError):
        Caller(key(max_active=0)).enter()


def test_a_key_may_list_models_by_any_of_their_names() -> None:
    serve = Serve("fast", served_name="spark", aliases=("gpt",))
    assert all(Caller(key(models=(name,))).may_use(serve) for name in ("fast", "spark", "gpt", "*"))
    with_pattern = replace(serve, alias_patterns=("gpt-*",))
    assert Caller(key(models=("gpt-*",))).may_use(with_pattern)
    assert not Caller(key(models=("gpt-4",))).may_use(with_pattern)
    assert not Caller(key(models=("other",))).may_use(serve)
    assert not Caller(key(models=())).may_use(serve)


def test_a_key_without_cloud_does_not_see_what_somebody_else_runs() -> None:
    ours, theirs = Serve("fast"), Serve("far", translation=Translation(cloud=True))
    here = Caller(key(cloud=False, models=("*",)))
    assert (here.may_use(ours), here.may_use(theirs)) == (True, False)
    assert not Caller(key(cloud=False, models=("far",))).may_use(theirs)
    assert Caller(key(models=("far",))).may_use(theirs)


def test_a_cloud_tier_is_asked_for_by_its_own_name_alone() -> None:
    tier = Serve("cloud", served_name="vendor/big", from_tier=True, is_served_name_public=False)
    assert Caller(key(models=("cloud",))).may_use(tier)
    assert not Caller(key(models=("vendor/big",))).may_use(tier)
