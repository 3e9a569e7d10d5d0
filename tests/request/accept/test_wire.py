"""What the wire relies on in uvicorn is there, in the version that was looked at."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl

from stoker.request.accept.wire import HOOKS, WireProtocol, _without_upgrade

CYCLE = (
    "scope", "transport", "flow", "default_headers", "message_event", "on_response", "keep_alive", "disconnected",
    "waiting_for_100_continue", "response_started", "response_complete", "more_body",
)  # fmt: skip
PROTOCOL = ("scope", "cycle", "pipeline", "flow", "transport")


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in HOOKS.items() for name in names])
def test_every_hook_is_there(owner: type, name: str) -> None:
    assert callable(owner.__dict__[name]), f"uvicorn's {owner.__name__} has no {name} of its own any more"


def test_every_method_that_is_overridden_is_a_hook() -> None:
    (parent,) = WireProtocol.__bases__
    own = {n for n in vars(WireProtocol) if callable(getattr(WireProtocol, n)) and hasattr(parent, n)}
    assert own - {"__init__"} <= set(HOOKS[parent])


@pytest.mark.parametrize("name", CYCLE)
def test_every_attribute_of_the_cycle_is_there(name: str) -> None:
    assert f"self.{name} = " in inspect.getsource(httptools_impl.RequestResponseCycle.__init__)


@pytest.mark.parametrize("name", PROTOCOL)
def test_every_attribute_of_the_protocol_is_there(name: str) -> None:
    assert re.search(rf"self\.{name}(:.*)? = ", inspect.getsource(httptools_impl.HttpToolsProtocol.__init__))


def test_flow_control_says_whether_the_client_is_slow() -> None:
    assert "self.write_paused = False" in inspect.getsource(FlowControl.__init__)
    assert callable(FlowControl.resume_reading)


def test_status_lines_are_there_for_every_status() -> None:
    assert set(httptools_impl.STATUS_LINE) == set(range(100, 600))


def test_uvicorn_is_the_minor_version_that_is_pinned() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    (pin,) = (d for d in project["project"]["dependencies"] if d.startswith("uvicorn"))
    low, high = re.fullmatch(r"uvicorn>=(\d+\.\d+),<(\d+\.\d+)", pin).groups()  # type: ignore[union-attr]
    assert uvicorn.__version__.startswith(low + ".")
    assert int(high.split(".")[1]) == int(low.split(".")[1]) + 1


def test_an_offer_of_another_protocol_is_taken_out_of_the_head_alone() -> None:
    data = b"POST / HTTP/1.1\r\nUpgrade: h2c\r\nx-upgrade: 1\r\n\r\nbody\r\nupgrade: 1\r\n\r\n"
    assert _without_upgrade(data) == data.replace(b"Upgrade:", b"x-asked:")
