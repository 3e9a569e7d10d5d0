"""The page that starts agents, in a real browser: the lines of `stoker launch` for a model. No secret is in them but
one that was made there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import STOKER, Plane, running, serve
from tests.scenarios.web_page import LOOKS, browsing, faults, needs_browser, opened, signed_in

from stoker_setup.clients.all_clients import LAUNCHED

LOOK, ACT = "key-that-may-look", "key-that-may-act"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }]
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    programs = tmp_path_factory.mktemp("programs")
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    environment = {"LOOK": LOOK, "ACT": ACT, "PATH": f"{programs}:/usr/bin:/bin"}
    serves = [serve("coder", context=131072), serve("small", context=8192, aliases=["it's/small"])]
    with running(*serves, front_door=KEYS, environment=environment) as found:
        yield found


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("STOKER_PICTURES"):
        for look, options in LOOKS.items():
            page.set_viewport_size(options["viewport"])
            page.emulate_media(color_scheme=options["color_scheme"], reduced_motion="reduce")
            page.screenshot(path=Path(folder) / f"{name}-{look}.png", full_page=True)


def test_each_agent_has_the_line_that_its_command_takes_and_the_same_judgement(plane: Plane) -> None:
    status, found = plane.ask("GET", "/admin/launch?model=it%27s/small")
    assert status == 200
    agents = {one["agent"]: one for one in found["agents"]}
    assert list(agents) == list(LAUNCHED)
    assert (found["model"], found["context"], found["problem"]) == ("it's/small", 8192, None)
    assert found["key"] == {"needed": True, "variable": "LOOK"}
    assert [name for name, one in agents.items() if one["installed"]] == ["codex"]
    assert agents["opencode"]["install"] == LAUNCHED["opencode"].program.install  # type: ignore[union-attr]
    assert LOOK not in json.dumps(found)
    line = shlex.split(agents["codex"]["command"])
    typed = subprocess.run([STOKER, *line[1:]], env=plane.environment, cwd="/", capture_output=True, text=True,
                           check=False)  # fmt: skip
    assert typed.returncode == 1
    assert agents["codex"]["shortage"] in typed.stderr
    roomy = plane.ask("GET", "/admin/launch")[1]
    assert (roomy["serve"], {one["shortage"] for one in roomy["agents"]}) == ("coder", {None})


def test_the_settings_for_other_machines_have_the_address_of_the_page(plane: Plane) -> None:
    found = plane.ask("GET", "/admin/launch?address=https://box.example/llm/")[1]
    assert all("https://box.example/llm" in json.dumps(one["blocks"]) for one in found["agents"])
    status, refused = plane.ask("GET", "/admin/launch?address=javascript:alert()")
    assert (status, refused["error"]["code"]) == (400, "usage")
    status, refused = plane.ask("GET", "/admin/launch?model=codr")
    assert (status, "did you mean 'coder'?" in refused["error"]["message"]) == (400, True)


@needs_browser
def test_a_model_is_chosen_and_a_key_that_is_made_there_is_in_the_lines(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "launch/coder", before=signed_in(plane, ACT)) as page:
        agents = page.locator(".agents > li")
        expect(agents).to_have_count(len(LAUNCHED))
        expect(agents.first.get_by_role("heading")).to_have_text("Codex CLI")
        expect(agents.first).to_contain_text("stoker launch codex --model coder --config ")
        expect(agents.nth(1)).to_contain_text("npm install -g @anthropic-ai/claude-code")
        expect(page.get_by_text("each line takes it from")).to_be_visible()
        picture(page, "launch")
        page.get_by_label("Model", exact=True).select_option("it's/small")
        expect(agents.first).to_contain_text("Codex CLI needs a context of")
        assert not faults(page)
        picture(page, "launch-small")
        page.get_by_role("button", name="Make a key").click()
        page.get_by_label("Name", exact=True).fill("agent")
        page.get_by_role("button", name="Make the key").click()
        made = page.locator("dialog .code code").inner_text()
        page.get_by_role("button", name="I have it").click()
        expect(agents.first).to_contain_text(f"export LOOK={made}\nstoker launch codex")
        agents.first.get_by_text("On another machine").click()
        expect(agents.first.locator("details")).to_contain_text(f"http://127.0.0.1:{plane.port}/v1")
        expect(agents.first.locator("details")).to_contain_text(f"export LOOK={made}\n")
        assert not faults(page)
        picture(page, "launch-key")
        page.get_by_role("link", name="Serves").click()
        page.get_by_role("link", name="Launch").click()
        expect(page.get_by_text("each line takes it from")).to_be_visible()
        expect(page.locator("main")).not_to_contain_text(made)


@needs_browser
def test_who_may_only_look_sees_the_lines_and_makes_no_key(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/coder", before=signed_in(plane, LOOK)) as page:
        page.get_by_role("link", name="Start a coding agent with it").click()
        expect(page.locator(".agents")).to_contain_text("stoker launch codex --model coder")
        expect(page.get_by_role("button", name="Make a key")).to_have_count(0)
        picture(page, "launch-looker")
