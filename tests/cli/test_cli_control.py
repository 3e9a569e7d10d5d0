"""The client of STATE/stoker.sock: what it makes of answers, refusals and silence."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, error

from stoker.cli.console import control as control_module
from stoker.cli.console.control import Control
from stoker.cli.console.errors import NotRunning, RequestRefused, UnreadableAnswer
from stoker.domain.decision import Decision


@pytest.fixture
def client(stoker: FakeStoker) -> Control:
    return Control(stoker.path, "stoker up --config F")


def test_status_is_typed_and_unknown_fields_do_not_matter(stoker: FakeStoker, client: Control) -> None:
    status = client.status()
    assert status.pid == 4242
    assert [s.state for s in status.serves] == ["ready", "stopped"]
    assert [slot.name for slot in status.slots] == ["gpu0"]
    stoker.answer("GET /status", {"version": "9", "pid": 1, "news": [1], "serves": [{"name": "a", "state": "x"}]})
    assert client.status().serves[0].name == "a"


def test_a_serve_is_found_by_each_of_its_names(stoker: FakeStoker, client: Control) -> None:
    from tests.cli.fake_stoker import serve_status

    stoker.status(serve_status("a", served_name="b"), serve_status("b", served_name="c", aliases=["d"]))
    status = client.status()
    assert [getattr(status.serve(n), "name", None) for n in "abcdx"] == ["a", "b", "b", "b", None]


def test_bodies_are_those_of_the_contract(stoker: FakeStoker, client: Control) -> None:
    stoker.answer("POST /admin/switch", {"serve": "slow", "seconds": 2.5, "phases": {"start": 2.0}})
    stoker.answer("POST /admin/unload", {})
    stoker.answer("POST /admin/drain", {})
    stoker.answer("POST /admin/undrain", {})
    switched = client.switch("slow", force=True, drain_timeout=3.0)
    assert (switched.seconds, switched.phases) == (2.5, {"start": 2.0})
    client.unload("fast")
    client.drain(None)
    client.undrain("fast")
    assert stoker.posts() == [
        ("POST /admin/switch", {"serve": "slow", "force": True, "drain_timeout": 3.0}),
        ("POST /admin/unload", {"serve": "fast", "drain_timeout": None}),
        ("POST /admin/drain", {"serve": None}),
        ("POST /admin/undrain", {"serve": "fast"}),
    ]


def test_decisions_are_records_and_ids_are_escaped(stoker: FakeStoker, client: Control) -> None:
    stoker.answer("GET /admin/decisions?limit=2", {"decisions": [{"id": "r", "at": 1.0, "endpoint": "/v1/x"}]})
    stoker.answer("GET /admin/decisions/a%2Fb", {"decision": {"id": "a/b", "at": 1.0, "endpoint": "/v1/x"}})
    assert client.decisions(2) == [Decision("r", 1.0, "/v1/x")]
    assert client.decision("a/b")[0].id == "a/b"


def test_a_refusal_keeps_its_message_code_and_status(stoker: FakeStoker, client: Control) -> None:
    stoker.answer("POST /admin/switch", error("the weights are missing", "not_startable"), 409)
    with pytest.raises(RequestRefused, match="the weights are missing") as refused:
        client.switch("slow")
    assert (refused.value.code, refused.value.status) == ("not_startable", 409)


@pytest.mark.parametrize("answer", [b"<html>", b"[1]", {"serves": 3}], ids=["no json", "no object", "no status"])
def test_an_answer_that_makes_no_sense_says_what_to_restart(
    stoker: FakeStoker, client: Control, answer: object
) -> None:
    stoker.answer("GET /status", answer)
    with pytest.raises(UnreadableAnswer, match="restart"):
        client.status()


def test_nothing_there_and_nothing_listening_both_name_the_start(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="stoker up --demo"):
        Control(tmp_path / "no.sock", "stoker up --demo").status()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    with pytest.raises(NotRunning, match="stoker up --demo"):
        Control(tmp_path / "dead.sock", "stoker up --demo").status()


def test_a_stopped_process_does_not_hang_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module, "ANSWER_TIMEOUT", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(UnreadableAnswer, match=r"within 0\.05 s"):
            Control(tmp_path / "s").status()


def test_closing_from_another_thread_ends_a_call_that_waits(stoker: FakeStoker, client: Control) -> None:
    arrived, release = threading.Event(), threading.Event()

    def slow(body: object) -> tuple[int, object]:
        arrived.set()
        release.wait(10)
        return 200, {"serve": "slow"}

    stoker.routes["POST /admin/switch"] = slow
    failed: list[Exception] = []

    def call() -> None:
        try:
            client.switch("slow")
        except UnreadableAnswer as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert arrived.wait(5)
        client.close()
        thread.join(5)
        assert not thread.is_alive()
        assert "closed the connection" in str(failed[0])
    finally:
        release.set()
        thread.join(5)
