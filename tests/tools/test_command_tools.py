"""A program of the operator that searches, or fetches pages: in the sandbox, with its limits."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, story
from tests.tools.tool_stage import SEARCH, called, fetcher_for, messages, search_for, use, worded

from stoker.domain.dialect import Dialect
from stoker_lab.suites.sandbox.sandbox import IsolationMethod, isolation_method
from stoker_tools import command
from stoker_tools.running import CallResult, ToolRunner
from stoker_tools.search import SearchQuery
from stoker_tools.tables import Provides, Tool, ToolService

CHAT_ONLY = a_serve(dialects=frozenset((Dialect.CHAT,)))
ECHO = (
    "import json,sys;given=json.load(sys.stdin);"
    "print(json.dumps({'results':[{'url':'https://a.example/','title':given['query'],'content':'330 m'},"
    "{'url':'file:///etc/passwd'}]}))"
)


def program(text: str, provides: Provides = Provides.SEARCH, **fields: Any) -> Tool:
    command = (sys.executable, "-I", "-S", "-c", text)
    return Tool(name="own", kind=ToolService.COMMAND, command=command, provides=provides, **fields)


def run(tool: Tool, text: str = "tower", **lists: Any) -> CallResult:
    runner = ToolRunner(time.monotonic, fetcher_for({"a.example": ["127.0.0.1"], "inside.example": ["10.0.0.1"]}))
    return asyncio.run(runner.run(tool, SearchQuery(text, 8, **lists)))


def test_a_program_searches_and_the_lists_of_clients_hold() -> None:
    (page,) = run(program(ECHO)).pages
    assert (page.url, page.title, page.text) == ("https://a.example/", "tower", "330 m")
    assert run(program(ECHO), blocked=("a.example",)).pages == []


def test_a_program_fetches_as_json_or_as_text() -> None:
    for text in ("print('plain')", 'print(\'{"content":"plain","title":""}\')'):
        (page,) = run(program(text, Provides.FETCH), "https://a.example/x").pages
        assert (page.url, page.text) == ("https://a.example/x", "plain")


@pytest.mark.parametrize(
    ("url", "fields", "lists"),
    [
        ("file:///etc/passwd", {}, {}),
        ("-K/etc/passwd", {}, {}),
        ("http://169.254.169.254/latest", {}, {}),
        ("https://inside.example/", {}, {}),
        ("https://a.example/", {"hosts": ("b.example",)}, {}),
        ("https://a.example/", {}, {"blocked": ("a.example",)}),
        ("https://a.example/", {}, {"allowed": ("b.example",)}),
    ],
)
def test_a_program_is_run_for_no_address_that_fetch_would_refuse(
    url: str, fields: dict[str, Any], lists: dict[str, Any]
) -> None:
    result = run(program("print('ran')", Provides.FETCH, **fields), url, **lists)
    assert (result.error, result.pages) == ("url_not_allowed", [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('no JSON')", "something else than JSON"),
        ("print('{}')", "no list of results"),
        ("import sys; sys.exit(3)", "ended with status 3"),
        ("print('x' * 200000)", "more than 100000 bytes"),
        ("while True: print('x' * 100000)", "more than"),
        ("import time; time.sleep(60)", "no answer within 1.5 s"),
    ],
)
def test_a_program_that_goes_wrong_is_an_error_that_names_the_cause(text: str, why: str) -> None:
    result = run(program(text, max_bytes=100_000, timeout=1.5 if "sleep" in text else 20.0))
    assert (result.error, result.pages) == ("unavailable", [])
    assert why in result.why


def test_a_program_sees_nothing_of_stokers_and_no_network_unless_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "s3cret")
    look = (
        "import os,socket;print(*os.environ,'files',*os.listdir('.'),'net',*[name for _,name in socket.if_nameindex()])"
    )
    own = {"OWN": "1"}
    for network in (False, True):
        (page,) = run(program(look, Provides.FETCH, env=own, network=network), "https://a.example/").pages
        names, _, rest = page.text.partition(" files net ")
        assert set(names.split()) <= {"PATH", "HOME", "TMPDIR", "LANG", "OWN", "LC_CTYPE"}
        if network or isolation_method().prefix:
            here = [name for _, name in socket.if_nameindex()]
            assert rest.split() == (here if network else ["lo"])


def test_without_namespaces_a_program_is_run_only_if_it_may_use_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "isolation_method", lambda: IsolationMethod((), None))
    refused = run(program(ECHO))
    assert (refused.error, refused.has_begun) == ("unavailable", False)
    assert "network = true in [tools.own]" in refused.why
    assert run(program(ECHO, network=True)).pages[0].title == "tower"


def test_what_it_says_on_stderr_is_no_result() -> None:
    (page,) = run(program("import sys;print('noise',file=sys.stderr);" + ECHO)).pages
    assert page.title == "tower"


@story(CHAT_ONLY)
async def test_a_model_gets_what_the_program_found(stage: Stage) -> None:
    use(stage, program(ECHO))
    client = await stage.client()
    await client.send(messages(SEARCH))
    (await stage.asked()).reply(called(search_for("x; rm -rf /")))
    talk = await stage.asked()
    assert "330 m" in talk.json()["messages"][-1]["content"]
    talk.reply(worded("330 m"))
    assert (await client.reply()).json()["content"][1]["content"][0]["title"] == "x; rm -rf /"
