"""What an engine says about its failure: shown to its client, hidden after a reload that says so, kept nowhere."""

from __future__ import annotations

import json

from tests.scenarios.caller import ask, story
from tests.scenarios.plane import config, running, serve

PROMPT = "marker_of_the_prompt"
TOKEN = "hf_0123456789abcdef"
FAILS = f"script: error_status=500 error_body={PROMPT}-{TOKEN}"


@story
async def test_a_reload_hides_what_engines_say_and_nothing_of_it_is_kept() -> None:
    with running(serve("a")) as plane:
        shown = (await ask(plane, "a", FAILS)).json()["error"]
        assert (shown["message"], shown["source"]) == (f"{PROMPT}-{TOKEN}", "upstream")

        more = serve("a"), serve("b", env={"HF_TOKEN": TOKEN})
        plane.write(config(*more))
        assert plane.admin("reload")[1]["added"] == ["b"]
        assert (await ask(plane, "a", FAILS)).json()["error"]["message"] == f"{PROMPT}-[redacted]"

        plane.write(config(*more, front_door='upstream_errors = "hide"'))
        assert plane.admin("reload")[0] == 200
        hidden = (await ask(plane, "a", FAILS)).json()["error"]
        assert (hidden["code"], hidden["source"]) == ("upstream_error", "stoker")

        assert len([one for one in plane.decisions() if one["outcome"] == "upstream_failed"]) == 3
        seen = plane.status(), plane.decisions(), plane.ask("GET", "/metrics")
        kept = [
            json.dumps(seen),
            plane.said(),
            *(path.read_text(errors="replace") for path in plane.state.rglob("*.log")),
        ]
        for place in kept:
            assert PROMPT not in place
            assert TOKEN not in place
