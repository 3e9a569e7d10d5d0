"""The tables of tools: several by name, each checked where it stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.config.effective import schema, show, to_toml
from stoker.domain.access import Settings
from stoker_tools.server import limits_of, tools_of
from stoker_tools.tables import Missing

FILE = """
[tools.web]
kind = "searxng"
base_url = "http://127.0.0.1:8888"
[tools.news]
kind = "brave"
key = "file:key"
hosts = ["*.example.com"]
[tool_loop]
max_rounds = 3
missing = "drop"
"""


def test_tools_have_names_and_order_and_are_shown_with_their_source_of_secrets(
    loaded: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("a-secret-of-brave")
    settings = loaded(FILE)
    web, news = tools_of(settings).values()
    assert (web.name, web.base_url, web.characters) == ("web", "http://127.0.0.1:8888", 12_000)
    assert news.key is not None
    assert (news.key.reveal(), news.hosts) == ("a-secret-of-brave", ("*.example.com",))
    assert (limits_of(settings).max_rounds, limits_of(settings).missing) == (3, Missing.DROP)
    shown = show(settings)
    assert shown["tools"]["news"]["key"] == "file:key"  # type: ignore[index]
    assert "a-secret-of-brave" not in to_toml(settings)
    assert show(loaded(to_toml(settings)))["tools"] == shown["tools"]
    assert schema()["properties"]["tools"]["additionalProperties"] == {"$ref": "#/$defs/Tool"}
    assert tools_of(loaded("")) == {}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[tools.x]\n", "kind': is missing"),
        ('[tools.x]\nkind = "map"\n', "'map' is not accepted; use searxng"),
        ('[tools.x]\nkind = "mcp"\nallow = ["*"]\n', "url': is missing"),
        ('[tools.x]\nkind = "mcp"\nurl = "http://a/mcp"\n', "allow': is missing"),
        ('[tools.x]\nkind = "mcp"\nurl = "http://a/mcp"\ncommand = "b"\nallow = ["*"]\n', "stands beside `command`"),
        ('[tools.x]\nkind = "mcp"\nbase_url = "http://a/mcp"\nallow = ["*"]\n', "is not used by `mcp`; write `url`"),
        ('[tools.x]\nkind = "mcp"\ncommand = "b"\nkey = "env:X"\nallow = ["*"]\n', "is sent to a `url`"),
        ('[tools.x]\nkind = "command"\nprovides = "web_search"\n', "command': is missing"),
        ('[tools.x]\nkind = "command"\ncommand = "b"\n', "provides': is missing"),
        ('[tools.x]\nkind = "command"\ncommand = "b"\nprovides = "mcp"\n', "'mcp' is not accepted"),
        ('[tools.x]\nkind = "fetch"\nallow = ["a"]\n', "allow': is not used by `fetch`"),
        ('[tools.x]\nkind = "searxng"\n', "base_url': is missing"),
        ('[tools.x]\nkind = "exa"\n', "key': is missing"),
        ('[tools.x]\nkind = "fetch"\nbase_url = "http://a"\n', "base_url': is not used"),
        ('[tools.x]\nkin = "fetch"\n', "unknown key; did you mean 'kind'?"),
        ('[tools."a b"]\nkind = "fetch"\n', "is not a valid name"),
        ('tools = "x"\n', "must be a table"),
    ],
)
def test_what_is_wrong_is_named_where_it_stands(problems: Callable[[str], list[str]], table: str, problem: str) -> None:
    assert any(problem in one for one in problems(table))
