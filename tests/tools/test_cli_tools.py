"""`stoker tools` lists tools, and makes one call by hand."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.config.load import load
from stoker.domain.doctor_finding import DoctorHealth
from stoker_lab.suites.sandbox import sandbox
from stoker_tools import command
from stoker_tools.commands import app
from stoker_tools.doctor import findings
from stoker_tools.mcp_servers import FILE, write_seen

run = CliRunner()


class Site(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        body = json.dumps({"results": [{"url": "https://a.example/", "title": "Tower", "content": "330 m"}]}).encode()
        self.send_response(type(self).status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    Site.status = 200


@pytest.fixture
def file(tmp_path: Path, site: HTTPServer) -> str:
    path = tmp_path / "stoker.toml"
    path.write_text(f'[tools.web]\nkind = "searxng"\nbase_url = "http://127.0.0.1:{site.server_port}"\n')
    return str(path)


def test_tools_are_listed(file: str, site: HTTPServer) -> None:
    listed = run.invoke(app, ["list", "--config", file])
    assert listed.output == (
        f"web: web_search by searxng at http://127.0.0.1:{site.server_port}, at most 8 calls a request\n"
    )
    (tool,) = json.loads(run.invoke(app, ["list", "--config", file, "--json"]).output)
    assert (tool["name"], tool["kind"], tool["answers"]) == ("web", "searxng", "web_search")


def test_one_call_shows_what_a_model_would_get_and_says_why_it_failed(file: str) -> None:
    tried = run.invoke(app, ["try", "web", "height of the Eiffel tower", "--config", file])
    assert (tried.exit_code, tried.output.splitlines()[:3]) == (0, ["Tower", "https://a.example/", "330 m"])
    Site.status = 403
    tried = run.invoke(app, ["try", "web", "ARG", "--config", file, "--json"])
    assert (tried.exit_code, json.loads(tried.output)["error"]) == (1, "unavailable")
    assert "search.formats" in json.loads(tried.output)["why"]


def test_what_doctor_proposes_for_a_tool_that_does_not_answer_shows_what_is_wrong(file: str) -> None:
    (well,) = findings(load(Path(file)))
    assert well.next == ""
    Site.status = 403
    (ill,) = findings(load(Path(file)))
    assert ill.next == "stoker tools try web weather"
    tried = run.invoke(app, [*ill.next.split()[2:], "--config", file])
    assert (tried.exit_code, "search.formats" in tried.output + tried.stderr) == (1, True)


def test_the_tools_of_an_mcp_server_are_listed_tried_and_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "stoker.toml"
    program = json.dumps([sys.executable, str(Path(__file__).with_name("mcp_server.py"))])
    head = f'[paths]\nstate = "{tmp_path / "state"}"\n'
    path.write_text(f'{head}[tools.desk]\nkind = "mcp"\ncommand = {program}\nallow = ["add", "forget", "gone"]\n')
    config = ["--config", str(path)]
    assert "desk: mcp by mcp: " in run.invoke(app, ["list", *config]).output
    listed = run.invoke(app, ["list", "desk", *config]).output
    assert listed == "add: Add two numbers.\nforget (may change things): Change things.\n"
    tried = run.invoke(app, ["try", "desk", "add", '{"a": 1, "b": 2}', *config])
    assert (tried.exit_code, tried.output.split("\n")[0]) == (0, "the sum is 3")
    path.write_text(f'{path.read_text()}[tools.web]\nkind = "searxng"\nbase_url = "http://127.0.0.1:1/"\n')
    proposed = str(run.invoke(app, ["list", "web", *config]).exception).rpartition(": stoker tools ")[2]
    assert "desk: mcp by mcp: " in run.invoke(app, proposed.split()).output
    path.write_text(path.read_text().partition("[tools.web]")[0])
    refused = run.invoke(app, ["try", "desk", "tell", *config])
    assert "has no tool 'tell'; it has add, forget, gone" in str(refused.exception)
    (found,) = findings(load(path))
    assert (found.health.value, found.detail) == ("warn", "the server has no tool gone")
    path.write_text(path.read_text().replace(', "gone"', ""))
    (found,) = findings(load(path))
    assert (found.health.value, found.detail) == ("ok", "2 tools: add, forget")
    seen = {"desk": {"add": "another", "gone": "another"}}
    write_seen(tmp_path / "state" / "tools" / FILE, seen)
    (found,) = findings(load(path))
    assert found.detail == "the server says something else than when first seen of: add"


def test_doctor_fails_where_a_program_would_have_a_network_that_it_was_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "isolation_method", lambda: sandbox.IsolationMethod((), None))
    path = tmp_path / "stoker.toml"
    path.write_text('[tools.own]\nkind = "command"\ncommand = "/bin/true"\nprovides = "web_search"\n')
    (finding,) = findings(load(path))
    assert finding.health is DoctorHealth.FAIL
    assert "network = true in [tools.own]" in finding.fix


def test_where_the_sdk_is_missing_doctor_says_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stoker_tools.mcp_session", None)
    path = tmp_path / "stoker.toml"
    path.write_text('[tools.desk]\nkind = "mcp"\nurl = "http://127.0.0.1:1/mcp"\nallow = ["*"]\n')
    (found,) = findings(load(path))
    assert "pip install 'stoker[mcp]'" in found.detail
    assert found.fix.startswith("install it")
