"""A tier at whose port nothing listens costs its requests nothing that can be felt."""

from __future__ import annotations

import json

from tests.scenarios.plane import free_port, poll, running, serve

TIERS = """
[[tier]]
name = "near"
serve = "gone"
[[tier]]
name = "far"
serve = "here"
"""


def test_the_next_tier_and_the_fallback_answer_instead_of_one_that_refuses() -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    keys: dict[str, object] = {"slot": None, "cmd": None, "stop_grace": None, "base_url": address}
    gone = serve("gone", **keys)
    backed = serve("backed", fallback="here", fallback_on=["unavailable"], **keys)
    with running(gone, backed, serve("here", slot=None), TIERS) as plane:
        assert plane.admin("switch", serve="here")[0] == 200
        for model in ("auto:chat", "backed"):
            for count in range(1, 6):
                body = {"model": model, "messages": [{"role": "user", "content": f"hello {count}"}], "max_tokens": 5}
                status, answer = plane.ask("POST", "/v1/chat/completions", body)
                assert status == 200, (model, count, answer)
        status, answer = plane.ask("POST", "/v1/chat/completions", {"model": "gone", "messages": body["messages"]})
        assert (status, "nothing listens on port" in json.dumps(answer)) == (503, True)
        poll(lambda: len(plane.decisions(20)) == 11, "the decisions are kept")
        assert {one["serve"] for one in plane.decisions(20)} == {"here", "gone"}
