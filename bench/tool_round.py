"""What one round of a server tool adds to a request, beyond the model and the tool: `python -m bench.tool_round`.

A real `stoker up`, a scripted serve and a scripted search engine, asked in turns by one client:

    plain    a request that is answered at once, through Stoker
    tool     one whose model first calls web_search: two answers of the model, one search
    model    an answer of the model, asked directly
    search   a search, asked directly, on a new connection as Stoker makes one

`added` is tool - plain - model - search of each turn. Nothing is asserted. bench/tool_round.md has the figures.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine
from bench.agents import serves
from bench.agents.search_site import SearchSite
from bench.agents.serves import KINDS
from bench.agents.session_paths import MODEL
from bench.swap.plane import Plane

TURNS = 300
WARM_UP = 20
CHAT = "/v1/chat/completions"
ANSWERS = [
    {"when": "Search", "blocks": [{"type": "call", "name": "web_search", "arguments": {"query": "tower"}}]},
    {"blocks": [{"type": "text", "text": "It is 330 m tall."}]},
]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N", help=f"default: {TURNS}")
    turns = parser.parse_args(argv).turns
    print(machine.headline(machine.facts()))
    with tempfile.TemporaryDirectory() as folder, SearchSite() as site:
        answers = Path(folder) / "answers.json"
        answers.write_text(json.dumps(ANSWERS))
        kind = KINDS["local"]
        with Plane(serves.serves(kind, answers), Path(folder) / "plane", site.configuration) as plane:
            figures = measured(plane, site, turns)
    for name, times in figures.items():
        low, *_, high = (tenth * 1000 for tenth in statistics.quantiles(times, n=10))
        print(f"{name:8}{statistics.median(times) * 1000:8.2f} ms   p10 {low:.2f}   p90 {high:.2f}")
    return 0


def measured(plane: Plane, site: SearchSite, turns: int) -> dict[str, list[float]]:
    """Seconds, by name."""
    stoker = http.client.HTTPConnection("127.0.0.1", plane.port)
    key = {"authorization": f"Bearer {plane.key}"}
    _post(stoker, _body("Say."), key)  # loads the serve
    model = http.client.HTTPConnection("127.0.0.1", int(plane.serve(MODEL)["port"]))
    times: dict[str, list[float]] = {"plain": [], "tool": [], "model": [], "search": [], "added": []}
    for turn in range(WARM_UP + turns):
        plain = _post(stoker, _body("Say."), key)
        tool = _post(stoker, {**_body("Search."), "web_search_options": {}}, key)
        direct = _post(model, _body("Say."), {})
        search = _search(site)
        if turn >= WARM_UP:
            added = tool - plain - direct - search
            for name, seconds in zip(times, (plain, tool, direct, search, added), strict=True):
                times[name].append(seconds)
    if len(site.queries) != 2 * (WARM_UP + turns):
        raise RuntimeError("a request did not search: the figures mean nothing")
    return times


def _body(text: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def _post(connection: http.client.HTTPConnection, body: dict[str, Any], headers: dict[str, str]) -> float:
    data = json.dumps(body)
    began = time.perf_counter()
    connection.request("POST", CHAT, data, {"content-type": "application/json", **headers})
    reply = connection.getresponse()
    reply.read()
    if reply.status != 200:
        raise RuntimeError(f"status {reply.status}")
    return time.perf_counter() - began


def _search(site: SearchSite) -> float:
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", site.port)
    connection.request("GET", "/search?q=tower&format=json")
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
