"""The web page in a real browser: what it shows, what it lets people do, and what it keeps out."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.scenarios.plane import Plane, poll, running, serve
from tests.scenarios.web_page import browsing, faults, needs_browser, opened

from stoker.domain.decision import Decision
from stoker.domain.merge_patch import merge_patch
from stoker.store.labels import OUTCOMES
from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

MARKUP = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'
LOOK_KEY, ACT_KEY = "key-that-may-only-look", "key-that-may-act-too"
APP_KEY, SHUT_KEY = "key-of-an-application", "key-that-may-use-no-model"
KEYS = """
keys = [{ name = "looker", value = "env:LOOK", scope = "observe" },
  { name = "boss", value = "env:ACT", scope = "admin" }, { name = "app", value = "env:APP" },
  { name = "shut", value = "env:SHUT", scope = "observe", models = [] }]
"""
PAGES = ["", "serves", "serves/a", "add", "requests", "routing", "results", "keys", "playground", "about", "tools",
         "docs/", "docs/guides/share"]  # fmt: skip
TITLES = {
    "": "Overview", "serves": "Serves", "serves/a": "a", "add": "Add a model", "requests": "Requests",
    "routing": "Routing", "results": "Results", "keys": "Keys and usage", "playground": "Playground",
    "about": "About", "tools": "Tools",
    "docs/": "Documentation", "docs/guides/share": "Share one Stoker",
}  # fmt: skip


def serves() -> list[str]:
    return [
        serve("a", model="Qwen/Qwen3-8B"),
        serve("b"),
        serve("bad", Script(exit_code=3, last_words=f"no {MARKUP} here"), model=MARKUP),
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(*serves()) as found:
        assert found.admin("switch", serve="a")[0] == 200
        yield found


@pytest.fixture(scope="module")
def guarded() -> Iterator[Plane]:
    values = {"LOOK": LOOK_KEY, "ACT": ACT_KEY, "APP": APP_KEY, "SHUT": SHUT_KEY}
    with running(*serves(), front_door=KEYS, environment=values) as found:
        yield found


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_every_page_is_accessible_fits_and_says_nothing_on_the_console(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, bypass_csp=True) as page:
        for route in PAGES:
            page.goto(f"http://127.0.0.1:{plane.port}/ui/#/{route}")
            expect(page.get_by_role("heading", level=1)).to_have_text(TITLES[route])
            assert faults(page) == [], route
        expect(page.get_by_role("navigation").get_by_role("link", name="Tools")).to_have_count(0)  # none is configured


def test_a_model_is_loaded_and_unloaded_with_the_keyboard_alone(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves") as page:
        page.get_by_role("link", name="b", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        page.get_by_role("button", name="Load").wait_for()
        for _ in range(2):  # the way back to all serves, then the button
            page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Load")).to_be_focused()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("listitem").nth(1)).to_contain_text("Drain a")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("b is ready")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.locator(".head .state")).to_contain_text("ready")
        assert plane.serve("b")["state"] == "ready"
        assert plane.serve("a")["state"] == "stopped"
    assert plane.admin("switch", serve="a")[0] == 200


def test_what_happens_is_shown_without_loading_the_page_again(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves") as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="b", exact=True))
        expect(row).to_contain_text("not loaded")
        assert plane.admin("switch", serve="b")[0] == 200
        expect(row).to_contain_text("ready")
        assert plane.admin("switch", serve="a")[0] == 200
        expect(row).to_contain_text("not loaded")


def test_an_open_page_reads_the_events_and_asks_for_nothing_again_and_again(browser: Browser, plane: Plane) -> None:
    asked: list[str] = []
    with opened(browser, plane, before=lambda page: page.on("request", lambda one: asked.append(one.url))) as page:
        expect(page.locator(".link")).to_have_text("live")
        before = len(asked)
        for name in ("b", "a"):
            assert plane.admin("switch", serve=name)[0] == 200
            lane = page.locator(".lane li").filter(has=page.get_by_role("link", name=name, exact=True))
            expect(lane.locator(".state")).to_contain_text("ready")
        assert asked[before:] == []
        assert [url.rpartition("/")[2] for url in asked if "/events" in url] == ["events?topics=status,decisions,swaps"]


def test_a_page_that_is_opened_later_draws_the_swaps_that_it_did_not_see(browser: Browser) -> None:
    with running(*serves()) as plane:
        for name in ("a", "b", "a"):
            assert plane.admin("switch", serve=name)[0] == 200
        began = plane.status()["started_at"]
        with opened(browser, plane) as page:
            page.get_by_text("As a table").click()
            rows = page.get_by_role("table", name="What gpu0 did").get_by_role("row")
            for name in ("a", "b"):
                of_serve = rows.filter(has=page.get_by_role("rowheader", name=name, exact=True))
                expect(of_serve.filter(has_text="loading")).to_have_count(2 if name == "a" else 1)
                expect(of_serve.filter(has_text="ready")).to_have_count(2 if name == "a" else 1)
            clock = page.evaluate("at => new Date(at * 1000).toLocaleTimeString('en-GB')", began)
            expect(page.locator("main")).to_contain_text(f"known since {clock}, when Stoker started")


@pytest.mark.parametrize(
    ("swap", "words"),
    [
        ({"phase": "draining", "stopping": ["b"], "elapsed": 9}, "b ends its requests first, then about 4.0 s to load"),
        ({"phase": "draining", "stopping": []}, "the slot is made free first, then about 4.0 s to load"),
        ({"phase": "starting", "elapsed": 1}, "ready in about 3.0 s"),
        ({"phase": "starting", "elapsed": 3.9}, "ready any moment"),
        ({"phase": "starting", "elapsed": 4.8}, "ready any moment"),
        ({"phase": "starting", "elapsed": 6}, "ready any moment: it takes longer than usual"),
        ({"phase": "starting", "elapsed": 60, "assumed": True}, "it is being loaded"),
    ],
)
def test_who_waits_for_a_load_is_told_until_when_and_that_it_is_late_only_if_it_is(
    browser: Browser, plane: Plane, swap: dict[str, Any], words: str
) -> None:
    waiting = {"name": "a", "state": "starting", "swap_seconds": 4, "swap_seconds_assumed": swap.pop("assumed", False)}
    slot = {"resident": [], "swap": {"target": "a", "stopping": [], "expected": 4, **swap}}
    with opened(browser, plane) as page:
        told = "async ([serve, slot]) => (await import('/ui/waiting.js')).waitingFor(serve, slot)"
        assert page.evaluate(told, [waiting, slot]) == words


def test_the_page_calls_failed_what_usage_calls_failed(browser: Browser, plane: Plane) -> None:
    ends = [(outcome, status) for outcome in sorted(OUTCOMES) for status in (200, 404, 429, 503)]
    with opened(browser, plane) as page:
        count = "async (all) => all.map((await import('/ui/outcomes.js')).isFailed)"
        shown = page.evaluate(count, [{"outcome": outcome, "status": status} for outcome, status in ends])
    assert shown == [Decision("r", 0.0, "", outcome=outcome, status=status).is_failed for outcome, status in ends]


def test_the_past_of_slots_follows_from_the_swaps_that_ended(browser: Browser, plane: Plane) -> None:
    phases = {"drain": 2, "check": 0, "stop": 1, "start": 3, "ready": 1}
    swaps = [  # the newest first: a was there at 100; b replaced it; b left; a start of a failed
        {"at": 160, "serve": "a", "victims": [], "outcome": "failed", "phases": {"drain": 0, "check": 0, "stop": 0}},
        {"at": 150, "serve": None, "victims": ["b"], "outcome": "stopped", "phases": {"drain": 0, "stop": 2}},
        {"at": 120, "serve": "b", "victims": ["a"], "outcome": "ready", "phases": phases},
        {"at": 105, "serve": "b", "victims": ["a"], "outcome": "failed", "phases": {"drain": 1, "check": 0.5}},
    ]
    with opened(browser, plane) as page:
        past = page.evaluate(
            "async (swaps) => [...(await import('/ui/past.js')).pastOf(swaps, 100)]"
            ".map(([name, bars]) => [name, bars.map((one) => [one.state, one.from, one.to])])",
            swaps,
        )
        assert dict(past) == {
            "a": [["ready", 100, 113], ["draining", 113, 115], ["stopping", 115, 116]],
            "b": [["starting", 116, 120], ["ready", 120, 148], ["stopping", 148, 150]],
        }
        seen = [{"state": "ready", "from": 105, "to": 150, "seen": 130}]
        old = [{"state": "starting", "from": 104, "to": 110}, {"state": "ready", "from": 110, "to": 140}]
        joined = page.evaluate(
            "async (given) => (await import('/ui/past.js')).joined(...given)"
            ".map((one) => [one.state, one.from, one.to])",
            [old, seen, [{"from": 130, "to": 150}]],
        )
        assert joined == [["starting", 104, 110], ["ready", 110, 130], ["ready", 130, 150]]


def test_the_page_applies_changes_of_the_status_as_stoker_makes_them(browser: Browser, plane: Plane) -> None:
    documents: list[dict[str, object]] = [
        {"serves": [{"name": "a", "state": "ready"}, {"name": "b", "facts": {"n_ctx": 1}}], "swap": None, "x": [1]},
        {"serves": [{"name": "a", "state": "stopped"}, {"name": "b", "facts": {}}], "swap": {"at": 2.5}, "x": [2, 3]},
        {"serves": [{"name": "a", "state": "ready"}, {"name": "b", "facts": {"n_ctx": 2}}], "swap": {"at": 3}},
        {"serves": [{"name": "a", "state": "ready"}, {"name": "b"}], "swap": {"at": 3}, "draining": True},
    ]
    with opened(browser, plane) as page:
        for old, new in itertools.pairwise(documents):
            follow = "async ([old, patch]) => (await import('/ui/patch.js')).patched(old, patch)"
            found = page.evaluate(follow, [old, merge_patch(old, new)])
            assert found == {name: value for name, value in new.items() if value is not None}


def test_markup_in_names_and_last_words_stays_text(browser: Browser, plane: Plane) -> None:
    assert plane.admin("switch", serve="bad")[0] >= 400
    with opened(browser, plane, "serves/bad") as page:
        expect(page.locator(".note.bad")).to_contain_text("<img src=")
        expect(page.locator(".facts")).to_contain_text(MARKUP)
        page.get_by_role("link", name="Overview").click()
        expect(page.locator(".happened")).to_contain_text("<img src=")
        assert page.locator("main img, main script").count() == 0
        expect(page).to_have_title("Overview · Stoker")


def test_injected_code_does_not_run(browser: Browser, plane: Plane) -> None:
    def inject(route: Route) -> None:
        reply = route.fetch()
        code = "<script>window.ran = 1</script><b onclick='window.ran = 2' id=bait>bait</b>"
        route.fulfill(response=reply, body=reply.text().replace("<noscript>", code + "<noscript>"))

    with opened(
        browser, plane, may_say="Security Policy|requires 'Trusted", before=lambda page: page.route("**/ui/", inject)
    ) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        page.locator("#bait").dispatch_event("click")
        assert page.evaluate("window.ran") is None
        for code in ("document.body.innerHTML = '<b>x</b>'", "document.createElement('script').text = '1'"):
            tried = f"() => {{ try {{ {code}; return 'done'; }} catch (error) {{ return error.name; }} }}"
            assert page.evaluate(tried) == "TypeError", code


def test_the_page_comes_back_by_itself_after_stoker_was_killed(browser: Browser) -> None:
    with running(serve("a")) as plane, opened(browser, plane) as page:
        expect(page.locator(".link")).to_have_text("live")
        plane.signal(signal.SIGKILL)
        plane.exit_code()
        expect(page.get_by_role("alert")).to_contain_text("Stoker does not answer")
        plane.start()
        expect(page.locator(".link")).to_have_text("live")
        expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("path", ["app.js", "vendor/preact.js", "page.css"])
def test_a_part_of_the_page_that_did_not_come_is_asked_for_again(browser: Browser, plane: Plane, path: str) -> None:
    """As when the network of this machine changes: the browser then ends what is under way."""

    def break_off_once(page: Page) -> None:
        page.route(f"**/ui/{path}", lambda route: route.abort("connectionreset"), times=1)

    with opened(browser, plane, "playground", before=break_off_once) as page:
        expect(page.get_by_label("Model", exact=True)).to_be_visible()
        expect(page.locator(".skip")).to_have_css("position", "absolute")


def test_a_module_that_never_comes_is_named_after_a_few_tries(browser: Browser, plane: Plane) -> None:
    asked: list[str] = []

    def refuse(page: Page) -> None:
        page.clock.install()
        page.route("**/ui/app.js", lambda route: (asked.append("app.js"), route.fulfill(status=404)))

    with opened(browser, plane, before=refuse, may_say="404") as page:
        note = page.locator(".boot")
        for _ in range(200):
            if "do not load" in (note.text_content() or ""):
                break
            page.clock.run_for(1000)
            page.wait_for_load_state()
        expect(note).to_contain_text("Some files of this page do not load: app.js")
        page.clock.run_for(300_000)
        assert len(asked) == 6


def test_a_stylesheet_that_never_comes_is_named_and_the_page_goes_on(browser: Browser, plane: Plane) -> None:
    asked: list[str] = []

    def refuse(page: Page) -> None:
        page.clock.install()
        page.route("**/ui/results.css", lambda route: (asked.append("results.css"), route.fulfill(status=404)))

    with opened(browser, plane, "playground", before=refuse, may_say="404") as page:
        page.evaluate("window.isTheSame = true")
        for _ in range(100):
            page.clock.run_for(1000)
            page.wait_for_timeout(10)
            if page.locator("#missing").count():
                break
        expect(page.locator("#missing")).to_contain_text("results.css")
        expect(page.get_by_label("Model", exact=True)).to_be_visible()
        assert page.evaluate("window.isTheSame")
        assert len(asked) == 6


def passed_until(page: Page, holds: Callable[[], bool]) -> int:
    """Seconds that have to pass on the page's clock, which was installed."""
    for seconds in range(100):
        if holds():
            return seconds
        page.clock.run_for(1000)
        page.wait_for_timeout(30)  # of real time, in which an answer comes
    pytest.fail("it does not come in 100 s")


def test_a_module_that_is_never_answered_is_asked_for_again_once_stoker_answers(browser: Browser, plane: Plane) -> None:
    """After 40 s; whether Stoker answers is asked again if that stays without an answer, too."""
    held: list[str] = []

    def hold_first(page: Page) -> None:
        page.clock.install()
        page.add_init_script(
            "const real = AbortSignal.timeout; window.limits = [];"
            "AbortSignal.timeout = (ms) => { window.limits.push(ms); return real.call(AbortSignal, ms); };"
        )
        page.route("**/ui/app.js", lambda route: held.append("app.js"), times=1)
        page.route("**/ui/", lambda route: held.append("page") if is_second(route) else route.fallback())

    def is_second(route: Route) -> bool:
        return route.request.resource_type == "fetch" and "page" not in held

    with opened(browser, plane, before=hold_first, waits_for="commit") as page:
        poll(lambda: page.wait_for_timeout(20) or held, "it asks")
        passed_until(page, lambda: "Trying again" in (page.locator(".boot").text_content() or ""))
        assert page.evaluate("performance.now()") >= 40_000
        page.clock.run_for(2000)
        poll(lambda: page.wait_for_timeout(20) or "page" in held, "it asks whether Stoker answers")
        page.wait_for_function("window.limits[0] === 10000")
        passed_until(page, lambda: bool(page.locator(".link").count()))
        expect(page.locator(".link")).to_have_text("live")
    assert held == ["app.js", "page"]


def test_a_question_without_an_answer_is_given_up_and_the_page_says_so(browser: Browser, plane: Plane) -> None:
    def hold(page: Page) -> None:
        page.clock.install()
        page.route("**/admin/results?*", lambda route: asked.append(route))

    asked: list[Route] = []
    with opened(browser, plane, "results", before=hold) as page:
        poll(lambda: page.wait_for_timeout(20) or asked, "it asks")
        page.clock.run_for(41_000)
        expect(page.get_by_text("There was no answer for 40 s.")).to_be_visible()


@pytest.mark.parametrize("path", ["ui/session", "events?*", "v1/models"])
def test_a_question_that_stays_without_an_answer_is_asked_again(browser: Browser, plane: Plane, path: str) -> None:
    asked: list[Route] = []

    def hold_first(page: Page) -> None:
        page.clock.install()
        page.route(f"**/{path}", lambda route: asked.append(route), times=1)

    with opened(browser, plane, "playground", before=hold_first) as page:
        poll(lambda: page.wait_for_timeout(20) or asked, "it asks")
        choice = page.get_by_label("Model", exact=True)
        assert choice.count() == 0
        for _ in range(60):
            page.clock.run_for(1000)
            if choice.count():
                break
        expect(choice).to_be_visible()


def test_who_signs_in_with_a_key_to_look_sees_everything_and_can_do_nothing(browser: Browser, guarded: Plane) -> None:
    with opened(browser, guarded, "serves/a") as page:
        for key, problem in (("no such key", "not accepted"), (APP_KEY, "Not allowed")):
            page.get_by_label("Key", exact=True).fill(key)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text(problem)
        page.get_by_label("Key", exact=True).fill(LOOK_KEY)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".facts")).to_contain_text("Qwen/Qwen3-8B")
        assert page.get_by_role("button", name="Load").count() == 0
        assert page.get_by_role("region", name="Log").count() == 0
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert LOOK_KEY not in str(page.context.storage_state())
        page.reload()
        expect(page.locator(".facts")).to_contain_text("Qwen/Qwen3-8B")
        page.get_by_role("button", name="Sign out looker").click()
        expect(page.get_by_label("Key", exact=True)).to_be_visible()
        assert page.context.cookies() == []


def test_who_signs_in_with_a_key_to_act_can_act_by_the_page_alone(browser: Browser, guarded: Plane) -> None:
    with opened(browser, guarded, "serves/a") as page:
        page.get_by_label("Key", exact=True).fill(ACT_KEY)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Load").wait_for()
        without = "async () => (await fetch('../status')).status"
        assert page.evaluate(without) == 401, "the cookie counts for the page's own requests only"


def test_a_key_that_may_not_look_is_told_how_to_make_one_that_may(browser: Browser, guarded: Plane) -> None:
    command = "stoker keys create NAME --scope admin"
    with opened(browser, guarded) as page:
        expect(page.locator("main")).to_contain_text(f"{command} makes one to look and act")
        sign_in(page, APP_KEY)
        expect(page.locator("main")).to_contain_text(f"{command} makes a key that may")


def test_an_address_of_no_page_is_told_with_the_way_back(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "nonsense") as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("No such page")
        page.locator("main").get_by_role("link", name="Overview").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_documentation_is_read_on_the_page_and_its_links_lead_on(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "about", may_say=" 404 ") as page:
        page.get_by_role("link", name="Commands").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Command line")
        expect(page.locator(".docs")).to_contain_text("stoker up")
        page.get_by_role("link", name="Documentation").click()
        page.locator(".docs").get_by_role("link", name="share one Stoker").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Share one Stoker")
        assert page.url.endswith("#/docs/guides/share")
        page.goto(f"http://127.0.0.1:{plane.port}/ui/#/docs/no/such")
        expect(page.get_by_role("heading", level=1)).to_have_text("No such page")


@pytest.mark.parametrize("look", ["light", "phone"])
def test_the_navigation_does_not_scroll_downwards(browser: Browser, plane: Plane, look: str) -> None:
    with opened(browser, plane, look=look) as page:
        nav = page.get_by_role("navigation")
        assert nav.evaluate("one => one.scrollHeight - one.clientHeight") == 0


def test_a_keyless_loopback_sets_no_cookie(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        assert page.context.cookies() == []
        assert page.get_by_role("button", name="Sign out").count() == 0
        page.get_by_role("link", name="Keys").click()
        expect(page.locator("main")).to_contain_text("stoker keys create me --scope admin")
        expect(page.get_by_role("button", name="Make the first key")).to_be_visible()


def test_models_are_for_keys_that_may_use_some(browser: Browser, guarded: Plane) -> None:
    with opened(browser, guarded, "playground") as page:
        sign_in(page, SHUT_KEY)
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        assert page.get_by_role("link", name="Playground").count() == 0
        page.get_by_role("button", name="Sign out shut").click()
        sign_in(page, LOOK_KEY)
        page.get_by_label("Message").fill("hello")
        page.get_by_role("button", name="As code").click()
        expect(page.get_by_role("dialog").locator("pre")).to_contain_text("Bearer $STOKER_KEY")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Send").click()
        link = page.get_by_role("link", name="Explain this answer")
        decision = guarded.decision((link.get_attribute("href") or "").rpartition("/")[2])
        assert (decision["key"], decision["outcome"]) == ("looker", "served")
    assert guarded.admin("unload", serve="a")[0] == 200


@contextlib.contextmanager
def foreign_origin() -> Iterator[str]:
    """A web server on another port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_of_another_origin_cannot_use_the_session(browser: Browser, guarded: Plane) -> None:
    """On another port of the same host: the browser counts that as the same site, and does send the cookie."""
    attempt = """async ([url, headers, mode]) => {
      const body = JSON.stringify({ model: "b", serve: "b", messages: [{ role: "user", content: "hello" }] });
      try { return (await fetch(url, { method: "POST", credentials: "include", mode, headers, body })).type; }
      catch (error) { return error.name; }
    }"""
    json_type, text_type = {"content-type": "application/json"}, {"content-type": "text/plain"}
    with foreign_origin() as origin, opened(browser, guarded) as own:
        sign_in(own, ACT_KEY)
        expect(own.get_by_role("heading", level=1)).to_have_text("Overview")
        page = own.context.new_page()
        page.goto(origin)
        for path in ("v1/chat/completions", "admin/switch"):
            url = f"http://127.0.0.1:{guarded.port}/{path}"
            assert page.evaluate(attempt, [url, {"x-stoker-page": "1", **json_type}, "cors"]) == "TypeError"
            page.evaluate(attempt, [url, text_type, "no-cors"])
        refused = re.findall(r'refusals_total{[^}]*"foreign_origin"} (\d+)', guarded.ask("GET", "/metrics")[1])
        assert sum(map(int, refused)) >= 2, "those without a preflight request arrive, and are refused"
        assert guarded.serve("b")["state"] == "stopped"
        inside = """async () => (await fetch('../admin/switch', { method: 'POST', body: '{"serve": "b"}',
          headers: { 'content-type': 'application/json', 'x-stoker-page': '1' } })).status"""
        assert own.evaluate(inside) == 200, "the same from the page itself"
    assert guarded.admin("unload", serve="b")[0] == 200


def test_a_slot_is_switched_after_its_steps_were_shown(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane) as page:
        page.get_by_role("button", name="Switch gpu0").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To").select_option("b")
        expect(dialog.get_by_role("listitem").nth(1)).to_contain_text("Drain a")
        expect(dialog.get_by_role("listitem").nth(2)).to_contain_text("Start b")
        assert plane.serve("a")["state"] == "ready"
        dialog.get_by_role("button", name="Switch").click()
        expect(dialog).to_contain_text("b is ready")
        assert plane.serve("b")["state"] == "ready"
    assert plane.admin("switch", serve="a")[0] == 200


def append(plane: Plane, serve: str, *lines: str) -> None:
    with (plane.state / "logs" / f"{serve}.log").open("a") as log:
        log.write("".join(f"{line}\n" for line in lines))


def test_a_log_is_followed_as_text_and_can_be_filtered(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/a") as page:
        lines = page.locator(".log .line")
        expect(page.locator(".log")).to_contain_text("scripted model 'a' listens")
        append(plane, "a", "\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b[2K", MARKUP, "10 %\r20 %\rdone")
        expect(lines.last).to_have_text("done\n")
        expect(lines.nth(-3)).to_have_text("red plain\n")
        expect(lines.nth(-3).locator(".ansi-red.ansi-bold")).to_have_text("red")
        expect(lines.nth(-2)).to_have_text(f"{MARKUP}\n")
        assert page.locator(".log img, .log script").count() == 0
        page.get_by_label("Filter the log").fill("PLAIN")
        expect(lines).to_have_count(1)
        page.get_by_label("Filter the log").fill("no such line")
        expect(page.locator(".log")).to_contain_text("contains “no such line”")


def test_a_log_stays_where_its_reader_scrolled_to_and_has_a_limit(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "serves/a") as page:
        lines = page.locator(".log .line")
        for batch in range(6):
            append(plane, "a", *(f"line {batch}-{number}" for number in range(400)))
            expect(lines.last).to_have_text(f"line {batch}-399\n")
        assert lines.count() == 2000
        page.get_by_role("region", name="Log of a").evaluate("box => { box.scrollTop = 0; }")
        expect(page.locator(".log")).to_contain_text("paused")
        append(plane, "a", "the news")
        expect(page.locator(".log")).to_contain_text("1 new line")
        expect(lines.last).to_have_text("line 5-399\n")
        page.get_by_role("button", name="Follow again").click()
        expect(lines.last).to_have_text("the news\n")
        from_end = "box => box.scrollHeight - box.scrollTop - box.clientHeight"
        assert page.get_by_role("region", name="Log of a").evaluate(from_end) < 8


def test_problems_are_shown_with_what_to_do_and_a_reload_with_what_it_changes(browser: Browser, plane: Plane) -> None:
    good, setting = plane.config.read_text(), "slots.gpu0.swap.linger"
    with opened(browser, plane, "about", may_say=" 400 ") as page:
        expect(page.locator(".facts").first).to_contain_text(str(plane.config))
        expect(page.get_by_text("parts are fine")).to_be_visible()
        plane.write(good.replace("[paths]", 'nonsense = "<b>"\n[paths]'))
        page.get_by_role("button", name="Check again").click()
        expect(page.locator(".note.bad")).to_contain_text("nonsense")
        page.get_by_role("button", name="Reload the configuration").click()
        expect(page.get_by_role("alert")).to_contain_text("nothing was changed")
        plane.write(good.replace('linger = "0s"', 'linger = "1s"'))
        page.get_by_role("button", name="Reload the configuration").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("listitem")).to_have_text([f"Apply this setting: {setting}."])
        assert plane.admin("reload", dry_run=True)[1]["settings"] == [setting], "nothing has happened yet"
        dialog.get_by_role("button", name="Reload").click()
        expect(dialog).to_contain_text("1 setting changed")
        assert plane.admin("reload", dry_run=True)[1]["settings"] == []
    plane.write(good)
    assert plane.admin("reload")[0] == 200


def test_what_is_wrong_with_the_machine_is_for_keys_of_scope_admin(browser: Browser, guarded: Plane) -> None:
    with opened(browser, guarded, "about") as page:
        sign_in(page, LOOK_KEY)
        expect(page.locator(".facts").first).to_contain_text("“looker”, with scope observe")
        assert page.get_by_role("heading", name="Problems").count() == 0
        assert page.get_by_role("button", name="Reload the configuration").count() == 0
        ask = "async () => (await fetch('../admin/doctor', { headers: { 'x-stoker-page': '1' } })).status"
        assert page.evaluate(ask) == 403
        page.get_by_text("Libraries and their licences").click()
        expect(page.get_by_role("group", name="Licence of preact", exact=True)).to_contain_text("MIT License")
