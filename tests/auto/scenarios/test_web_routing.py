"""The page of routing in a real browser: verdicts, the evidence behind them, circuits, and a prompt that is tried."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import Plane, poll, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened

from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

MARKUP = '<img src="x" onerror="document.title=1">'
LOOK_KEY, ACT_KEY = "key-that-may-only-look", "key-that-may-act-too"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }]
"""
TIERS = """
[[tier]]
name = "small"
serve = "a"

[[tier]]
name = "dear"
serve = "b"
classes = ["chat", "planning", "code-write"]
cost = { input = 3.0, output = 15.0 }

[router]
unmeasured = "cheapest"
breaker_failures = 1
breaker_cool_down = "10m"
"""
DEMOTED = {"tier": "small", "task_class": "tool-use", "identity": "x", "execution": "y", "measured": 5.0,
           "checks": ["tool-call"], "at": 1_700_000_000.0}  # fmt: skip


def row(task_class: str, passed: int, n: int, verdict: str, **more: object) -> dict[str, object]:
    return {"tier": "small", "task_class": task_class, "identity": "x", "execution": "y", "n": n, "passed": passed,
            "verdict": verdict, "source": MARKUP, "dataset": "d" * 64, "at": 5.0, **more}  # fmt: skip


ROWS = [
    row("tool-use", 27, 27, "allow"),
    row("planning", 0, 3, "deny"),
    row("json-extract", 13, 14, "allow-with-verify"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    local = serve("a", Script(), slot=None, model="./weights", engine="llama.cpp", served_name="a")
    cloud = serve("b", Script(), slot=None, translation={"cloud": True})
    keys = {"LOOK": LOOK_KEY, "ACT": ACT_KEY}
    with running(local, cloud, TIERS, front_door=KEYS, environment=keys, started=False) as found:
        (found.directory / "weights").mkdir()
        for name in ("model.gguf", "chat_template.jinja"):  # so that its fingerprint can be known
            (found.directory / "weights" / name).write_text(name)
        found.state.mkdir(mode=0o700)
        (found.state / "demotions.json").write_text(json.dumps([DEMOTED]))
        (found.state / "profile.json").write_text(json.dumps({"version": 1, "rows": ROWS}))
        found.start()
        yield found


def sign_in(page: Page, key: str = ACT_KEY) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Routing")


def try_prompt(page: Page, text: str) -> None:
    page.get_by_label("Prompt").fill(text)
    page.get_by_role("button", name="Show the way").click()
    expect(page.locator(".try [role=status]")).to_contain_text("Class")


def test_verdicts_evidence_and_plan_are_accessible_and_fit(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "routing/small/tool-use", bypass_csp=True) as page:
        sign_in(page)
        expect(page.locator("#evidence")).to_contain_text("Demoted")
        try_prompt(page, "Plan the migration of our billing system to Kubernetes")
        assert faults(page) == []


def test_the_evidence_of_a_cell_is_reached_with_the_keyboard_and_by_its_address(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "routing") as page:
        sign_in(page)
        page.get_by_role("button", name="not measured").first.focus()
        for _ in range(2):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.url.endswith("#/routing/small/planning")
        evidence = page.get_by_role("region", name="Evidence for small at planning")
        expect(evidence).to_contain_text("No request of this class goes to it.")
        expect(evidence).to_contain_text("0 of 3 right")
        expect(evidence).to_contain_text("between 0.00 and 0.56")
        expect(evidence).to_contain_text("stoker eval bootstrap small --class planning")
        expect(evidence).to_contain_text(MARKUP)
        assert page.locator("main img").count() == 0
        page.reload()
        expect(evidence).to_contain_text("0 of 3 right")
        page.locator("[data-cell='2,0']").press("Enter")
        expect(evidence).to_have_count(0)
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/routing/small/tool-use")
        expect(page.locator("#evidence")).to_contain_text("and then the preflight failed at tool-call")
        expect(page.get_by_role("button", name="stale, deny")).to_be_visible()
        assert page.get_by_role("button", name="not its class").count() > 5


def test_a_measurement_shows_at_once(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "routing") as page:
        sign_in(page, LOOK_KEY)
        assert page.get_by_role("heading", name="Try a prompt").count() == 0
        chat = page.get_by_role("row", name="chat").get_by_role("button").first
        expect(chat).to_contain_text("not measured")
        assert plane.admin("switch", serve="a")[0] == 200
        marks = plane.state / "fingerprints.json"
        poll(lambda: marks.exists() and "a" in json.loads(marks.read_bytes()), "its fingerprint is known")
        mark = json.loads(marks.read_bytes())["a"]
        now = {"identity": mark["identity"], "execution": mark["execution"], "at": 6.0}
        rows = [*ROWS, row("chat", 27, 27, "allow", **now)]
        (plane.state / "profile.json").write_text(json.dumps({"version": 1, "rows": rows}))
        assert plane.admin("reload")[0] == 200
        expect(chat).to_contain_text("allow")
        expect(chat).to_contain_text("at least 0.88 · n 27")


def test_a_prompt_is_tried_and_each_step_is_told_and_nothing_is_sent(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "routing") as page:
        sign_in(page)
        try_prompt(page, "Plan the migration of our billing system to Kubernetes")
        plan = page.locator(".try [role=status]")
        expect(plan).to_contain_text("Class planning, high risk, by its text")
        steps = plan.get_by_role("listitem")
        expect(steps.nth(0)).to_contain_text("dear")
        expect(steps.nth(1)).to_contain_text("not used")
        page.get_by_label("Class that is declared").select_option("vision")
        page.get_by_role("button", name="Show the way").click()
        expect(plan).to_contain_text("Class vision, as you declared it")
        assert plane.decisions() == []


def test_a_circuit_that_opens_shows_at_its_tier(browser: Browser, plane: Plane) -> None:
    assert plane.admin("switch", serve="b")[0] == 200
    plane.scripted("b", error_status=500)
    with opened(browser, plane, "routing") as page:
        sign_in(page)
        head = page.get_by_role("columnheader", name="dear")
        expect(head).to_contain_text("cloud")
        asked = {"model": "auto:planning", "messages": [{"role": "user", "content": "plan it"}]}
        assert plane.ask("POST", "/v1/chat/completions", asked)[0] >= 400
        expect(head).to_contain_text("left alone: it failed too often")
