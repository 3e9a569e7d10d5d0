"""The playground of the web page in a real browser: what it sends, what it shows, and what it leaves nowhere."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.plane import Plane, llama, poll, running, serve
from tests.scenarios.speech.image_server import png
from tests.scenarios.test_speech import engine
from tests.scenarios.web_page import browsing, faults, needs_browser, opened

from stoker_lab.testing.script.answers import ScriptedAnswer, ScriptedCall, ScriptedText, ScriptedThinking, answers_json
from stoker_lab.testing.script.script import Script

pytestmark = needs_browser

MARKUP = '<img src="x" onerror="document.title=1"><script>document.title=2</script>'
ANSWER = f"""# A list

1. **bold** and `code`

   ```sh
   stoker up
   ```
2. [a link](https://example.org/x) [no link](javascript:alert(1))

| a | b |
|---|---|
| 1 | 2 |

{MARKUP}
"""
ANSWERS = answers_json([
    ScriptedAnswer((ScriptedThinking("It wants rain."), ScriptedCall("weather", {"city": "Bern"})), when="weather"),
    ScriptedAnswer((ScriptedText("It is sunny."),), when="sunny"),
    ScriptedAnswer((ScriptedText(ANSWER),)),
])  # fmt: skip
TIERS = '[[tier]]\nname = "cheap"\nserve = "writer"'
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    talk = ["chat", "completions"]
    with running(
        serve(
            "writer", Script(answers=ANSWERS, cached_tokens=3), dialects=talk, modalities=["text", "image"], slot=None
        ),
        serve("slow", Script(gap=0.2, tokens=500, ready_after=2.0), dialects=talk),
        serve("other", dialects=talk, slot=None),
        serve("vectors", dialects=["embeddings", "rerank"], slot=None),
        llama("spark", slot=None),
        engine("painter", "image_server", "image", "--pause", "0", slot=None),
        engine("espeak", "speech_server", "speech", "--engine", "espeak-ng", slot=None),
        engine("ears", "transcription_server", "transcription", slot=None),
        TIERS,
    ) as found:
        for name in ("writer", "other"):
            assert found.admin("switch", serve=name)[0] == 200
        yield found


def ask(page: Page, model: str | None, text: str) -> None:
    if model is not None:
        page.get_by_label("Model", exact=True).select_option(model)
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")


def last_request(page: Page) -> str:
    """The id of the request that the last answer came from, once its figures are there."""
    link = page.get_by_role("link", name="Explain this answer").last
    link.wait_for()
    return (link.get_attribute("href") or "").removeprefix("#/requests/")


def took(page: Page) -> str:
    return page.locator(".answer-took").last.inner_text().replace("\n", " ")


def sent_to(plane: Plane, name: str) -> dict[str, Any]:
    """The body of the last chat request that a scripted serve got."""
    return dict(json.loads(plane.received(name, "/v1/chat/completions")[-1]["body"]))


def test_a_conversation_is_accessible_and_fits(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground", bypass_csp=True) as page:
        ask(page, "writer", "hello")
        last_request(page)
        for kind in ("Compare models", "Speech", "Transcription", "Images", "Embeddings", "Rerank"):
            page.get_by_role("button", name=kind, exact=True).click()
            assert faults(page) == [], kind


def test_an_answer_shows_who_gave_it_and_what_it_took(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        expect(page.get_by_label("Model", exact=True)).to_have_value("auto")
        ask(page, None, "hello")
        decision = plane.decision(last_request(page))
        expect(page.locator(".answer-took")).to_contain_text(f"Class {decision['routed']['task']}", use_inner_text=True)
        shown = took(page)
        assert (decision["serve"], decision["outcome"], decision["stream"]) == ("writer", "served", True)
        assert "Serve writer Tier cheap" in shown
        assert f"{decision['input_tokens']} in, {decision['output_tokens']} out" in shown
        assert f"From cache 3 of {decision['input_tokens']}" in shown
        assert re.search(r"First token [\d.]+ m?s", shown)
        page.get_by_role("link", name="Explain this answer").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("auto")
        assert page.url.endswith(f"#/requests/{decision['id']}")


def test_an_answer_is_shown_as_text_with_structure_and_markup_in_it_does_nothing(
    browser: Browser, plane: Plane
) -> None:
    with opened(browser, plane, "playground") as page:
        ask(page, "writer", "hello")
        last_request(page)
        answer = page.locator(".markdown")
        expect(answer.get_by_role("heading")).to_have_text("A list")
        expect(answer.locator("ol > li")).to_have_count(2)
        expect(answer.locator("li pre")).to_have_text("stoker up")
        expect(answer.get_by_role("link")).to_have_text(["a link"])
        expect(answer).to_contain_text("[no link](javascript:alert(1))")
        expect(answer).to_contain_text(MARKUP)
        assert answer.locator("img, script").count() == 0
        assert page.title() == "Playground · Stoker"


def test_hostile_markdown_takes_linear_time(browser: Browser, plane: Plane) -> None:
    hostile = [
        "[", "[a](", "**a ", "*a *", "`", "`a``", "~~", "> ", "- ", "1. a\n\n", "|a", "<http://", "http", "# ", "```\n",
        "- a\n\nb\n\n", "_a _", "[a](http://", "![", "\\", "    ", "| - ",
    ]  # fmt: skip
    run = """async (pieces) => {
      const [{ blocks }, { inline }] = await Promise.all([import('/ui/markdown.js'), import('/ui/inline.js')]);
      const slow = [];
      for (const piece of pieces) {
        const text = piece.repeat(200000 / piece.length);
        const began = performance.now();
        for (const block of blocks(text)) inline(block);
        if (performance.now() - began > 2000) slow.push([piece, performance.now() - began]);
      }
      return slow;
    }"""
    with opened(browser, plane, "playground") as page:
        assert page.evaluate(run, hostile) == []


def test_stop_ends_the_request(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        ask(page, "slow", "hello")
        expect(page.locator(".pending")).to_contain_text("Loading slow")
        expect(page.locator(".turns .markdown")).to_contain_text("tok1")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".turns")).to_contain_text("You stopped it.")
        assert plane.decision(last_request(page))["outcome"] == "client_left"
        poll(plane.is_settled, "nothing is in flight")


def test_two_models_get_the_same_prompt(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        page.get_by_label("Model", exact=True).select_option("writer")
        page.get_by_role("button", name="Compare models").click()
        served = {one["id"]: one["stoker"]["serve"] for one in plane.ask("GET", "/v1/models")[1]["data"]}
        assert served[page.get_by_label("Model 2", exact=True).input_value()] not in {None, "writer"}
        page.get_by_label("Model 2", exact=True).select_option("other")
        page.get_by_label("Temperature").fill("0.5")
        ask(page, None, "which of you")
        expect(page.get_by_role("link", name="Explain this answer")).to_have_count(2)
        sent = [json.loads(plane.received(name, "/v1/chat/completions")[-1]["body"]) for name in ("writer", "other")]
        assert [one["messages"] for one in sent] == [[{"role": "user", "content": "which of you"}]] * 2
        assert [one["temperature"] for one in sent] == [0.5, 0.5]


def test_calls_of_tools_are_shown_and_their_results_sent(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        page.get_by_text("Tools", exact=True).click()
        page.get_by_label("As JSON").fill("[{")
        ask(page, "writer", "the weather in Bern?")
        expect(page.get_by_role("alert")).to_contain_text("not valid JSON")
        page.get_by_label("As JSON").fill(json.dumps(TOOLS))
        ask(page, "writer", "the weather in Bern?")
        expect(page.locator(".call pre")).to_contain_text('"city": "Bern"')
        expect(page.get_by_text("It wants rain.")).to_have_count(1)
        page.get_by_label("Result of weather").fill("sunny")
        page.get_by_role("button", name="Send the result").click()
        expect(page.locator(".markdown")).to_have_text("It is sunny.")
        question, call, result = sent_to(plane, "writer")["messages"]
        assert question["content"] == "the weather in Bern?"
        assert (result["role"], result["content"]) == ("tool", "sunny")
        assert result["tool_call_id"] == call["tool_calls"][0]["id"]


def test_images_are_sent_only_where_the_model_takes_them(browser: Browser, plane: Plane) -> None:
    picture = {"name": "a.png", "mimeType": "image/png", "buffer": png("a kettle", 8)}
    with opened(browser, plane, "playground") as page:
        page.get_by_label("Model", exact=True).select_option("other")
        expect(page.get_by_role("button", name="Add images")).to_have_count(0)
        page.get_by_label("Model", exact=True).select_option("writer")
        page.locator("input[type=file]").set_input_files(
            [picture, {**picture, "name": "a.txt", "mimeType": "text/plain"}]
        )
        expect(page.get_by_role("alert")).to_contain_text("a.txt is no PNG")
        expect(page.get_by_alt_text("Image 1 to send")).to_be_visible()
        ask(page, None, "what is this?")
        last_request(page)
        _, image = sent_to(plane, "writer")["messages"][0]["content"]
        assert base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,")) == picture["buffer"]


def test_the_program_sends_what_the_page_sends(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        page.get_by_label("System prompt").fill("It's you.")
        page.get_by_label("Max tokens").fill("7")
        page.get_by_label("Model", exact=True).select_option("other")
        page.get_by_label("Message").fill('say "hello" \\ $HOME')
        page.get_by_role("button", name="As code").click()
        dialog = page.get_by_role("dialog")
        words = shlex.split(dialog.locator("pre").inner_text().replace("\\\n", " "))
        dialog.get_by_role("button", name="Python").click()
        python = dialog.locator("pre").inner_text()
        page.keyboard.press("Escape")
        page.get_by_label("Message").press("Enter")
        last_request(page)
        page.get_by_role("button", name="As code").click()
        assert '"content": ""' not in dialog.locator("pre").inner_text(), "the empty box is no message"
    sent = sent_to(plane, "other")
    assert json.loads(words[words.index("-d") + 1]) == sent
    assert f"http://127.0.0.1:{plane.port}/v1/chat/completions" in words
    given: dict[str, Any] = {}
    call = python[python.index("client.chat") : python.index("\nfor chunk")].replace(
        "client.chat.completions.create", "keep"
    )
    exec(call, {"keep": given.update})
    assert given == sent


def test_embeddings_rankings_and_images_are_for_serves_that_make_them(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground") as page:
        kinds = page.get_by_role("group", name="Kind of request")
        kinds.get_by_role("button", name="Embeddings").click()
        expect(page.get_by_label("Model", exact=True).get_by_role("option")).to_have_text(["vectors"])
        page.get_by_role("button", name="Embed", exact=True).click()
        expect(page.get_by_role("region", name="How alike")).to_contain_text("1.000")
        kinds.get_by_role("button", name="Rerank").click()
        page.get_by_role("button", name="Rank", exact=True).click()
        expect(page.get_by_role("region", name="Documents").get_by_role("row")).to_have_count(4)
        kinds.get_by_role("button", name="Images").click()
        page.get_by_role("button", name="Paint").click()
        expect(page.get_by_alt_text("Image 1 of the answer")).to_be_visible()
        assert page.evaluate("document.querySelector('.painted img').naturalWidth") > 0


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="no espeak-ng here: apt-get install espeak-ng")
@pytest.mark.skipif(find_spec("pocketsphinx") is None, reason="pocketsphinx is not installed")
def test_what_is_spoken_can_be_played_and_transcribed(browser: Browser, plane: Plane, tmp_path: Path) -> None:
    with opened(browser, plane, "playground", accept_downloads=True) as page:
        page.get_by_role("button", name="Speech", exact=True).click()
        page.get_by_label("Text").fill("go forward ten meters")
        page.get_by_role("button", name="Speak").click()
        expect(page.locator("audio")).to_be_visible()
        with page.expect_download() as saving:
            page.get_by_role("link", name="Save").click()
        saving.value.save_as(tmp_path / "speech.wav")
        page.get_by_role("button", name="Transcription", exact=True).click()
        page.get_by_label("Audio file").set_input_files(tmp_path / "speech.wav")
        page.get_by_role("button", name="Transcribe").click()
        expect(page.get_by_role("region", name="Answer")).to_contain_text("go forward ten meters")


@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_a_real_model_answers_and_nothing_is_kept_anywhere(browser: Browser, plane: Plane) -> None:
    with opened(browser, plane, "playground/spark") as page:
        expect(page.get_by_label("Model", exact=True)).to_have_value("spark")
        page.get_by_label("Max tokens").fill("40")
        ask(page, None, "What is a stoker, kettle-4711?")
        decision = plane.decision(last_request(page))
        expect(page.locator(".answer-took")).to_contain_text("Tokens/s")
        assert (decision["serve"], decision["outcome"]) == ("spark", "served")
        page.get_by_role("link", name="Serves").click()
        page.get_by_role("link", name="Playground").click()
        expect(page.locator(".turns")).to_contain_text("kettle-4711")
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        page.reload()
        expect(page.get_by_label("Message")).to_be_visible()
        expect(page.locator(".turns > li")).to_have_count(0)
    for file in plane.state.rglob("*"):
        if file.is_file() and not file.is_socket():
            assert b"kettle-4711" not in file.read_bytes(), file
