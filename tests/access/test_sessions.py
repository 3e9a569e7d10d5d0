"""Sessions of the web page: a cookie in place of a key, while the key holds."""

from __future__ import annotations

import pytest

from stoker.access.access_control import AccessControl
from stoker.access.refusals import BadKey
from stoker.access.sessions import LASTS, MAX_SESSIONS, Sessions, cookie
from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError
from stoker.domain.key import Key, Scope
from stoker.domain.serve import Secret

KEY = Key("team", Secret("k-1", "env:X"), Scope.OBSERVE)
OTHER = Key("other", Secret("k-2", "env:Y"))


def door(*keys: Key) -> AccessControl:
    return AccessControl(ListenSettings(keys=keys or (KEY,)))


def headers(token: str, **more: bytes) -> dict[bytes, bytes]:
    given = {b"host": b"localhost", b"cookie": b"theme=dark; stoker_8000=" + token.encode(), b"x-stoker-page": b"1"}
    return given | {name.replace("_", "-").encode(): value for name, value in more.items()}


def signed_in(control: AccessControl) -> str:
    return control.sessions.begin(control.keyring.digest(b"k-1"))


def test_the_cookie_stands_for_the_key() -> None:
    control = door()
    assert control.admit(headers(signed_in(control)), False).key.name == "team"


def test_without_the_pages_header_the_cookie_counts_for_nothing() -> None:
    control = door()
    given = headers(signed_in(control))
    del given[b"x-stoker-page"]
    with pytest.raises(BadKey):
        control.admit(given, False)


def test_a_wrong_key_is_refused_whatever_cookie_comes_with_it() -> None:
    control = door()
    with pytest.raises(BadKey):
        control.admit(headers(signed_in(control), authorization=b"Bearer nobody"), False)


def test_a_cookie_of_another_stoker_or_an_invented_one_is_refused() -> None:
    control = door()
    for token in ("", "invented", signed_in(door())):
        with pytest.raises(BadKey):
            control.admit(headers(token), False)


def test_a_page_of_another_origin_is_refused_with_the_cookie_too() -> None:
    control = door()
    with pytest.raises(ClientError) as caught:
        control.admit(headers(signed_in(control), origin=b"http://evil.example"), False)
    assert caught.value.code == "foreign_origin"


def test_a_session_ends_with_its_key() -> None:
    control = door(KEY, OTHER)
    token = signed_in(control)
    control.configure(ListenSettings(keys=(OTHER,)))
    with pytest.raises(BadKey):
        control.admit(headers(token), False)


def test_a_session_ends_when_it_is_signed_out_or_too_old() -> None:
    now = [0.0]
    control = door()
    sessions = Sessions(control.keyring.find_digest, lambda: now[0])
    digest = control.keyring.digest(b"k-1")
    first, second = sessions.begin(digest), sessions.begin(digest)
    sessions.end(headers(first), b"stoker_8000")
    assert sessions.caller(headers(first), b"stoker_8000") is None
    assert sessions.caller(headers(second), b"stoker_8000") is not None
    now[0] = LASTS
    assert sessions.caller(headers(second), b"stoker_8000") is None


def test_sessions_are_bounded_and_the_oldest_one_ends() -> None:
    control = door()
    tokens = [signed_in(control) for _ in range(MAX_SESSIONS + 1)]
    assert len(control.sessions) == MAX_SESSIONS
    assert control.sessions.caller(headers(tokens[0]), b"stoker_8000") is None
    assert control.sessions.caller(headers(tokens[-1]), b"stoker_8000") is not None


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites() -> None:
    assert cookie(b"s", "t", "/llm/", True) == (b"s=t; Path=/llm/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure")
    assert cookie(b"s", "", "/", False) == b"s=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


@pytest.mark.parametrize("path", ["", "llm/", "/llm", "/a;b/", "/../", "//x/", "/a\r\n/", "/" * 40])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ClientError, match="base path"):
        cookie(b"s", "t", path, False)
