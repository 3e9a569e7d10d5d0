"""A Stoker with three tiers of which much is measured, for the picture of the page of routing."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

from tests.scenarios.plane import Plane, poll, running, serve

from stoker_lab.testing.script.script import Script

LOCAL = ("qwen3-8b", "coder-14b")
TIERS = """
[[tier]]
name = "small"
serve = "qwen3-8b"

[[tier]]
name = "coder"
serve = "coder-14b"
classes = ["chat", "planning", "code-write", "code-edit", "review", "reasoning"]

[[tier]]
name = "cloud"
serve = "frontier"
cost = { input = 3.0, output = 15.0 }
"""
DAY = 86_400.0
MEASURED = (
    ("small", "chat", 27, 27, "allow", 3.0), ("small", "planning", 0, 3, "deny", 3.0),
    ("small", "code-write", 29, 31, "allow", 3.0), ("small", "json-extract", 13, 14, "allow-with-verify", 0.2),
    ("small", "math-short", 20, 20, "allow", 3.0), ("coder", "planning", 27, 27, "allow", 0.1),
    ("coder", "code-write", 27, 27, "allow", 0.1), ("coder", "code-edit", 27, 27, "allow", 0.1),
    ("coder", "review", 36, 40, "allow", 0.1),
)  # fmt: skip
"""Tier, class, right answers, answers, verdict, age in days."""


@contextlib.contextmanager
def routing_stage() -> Iterator[Plane]:
    same = {"slot": None, "engine": "llama.cpp"}
    local = [serve(name, Script(), model=f"./{name}", served_name=name, **same) for name in LOCAL]
    cloud = serve("frontier", Script(), slot=None, translation={"cloud": True})
    with running(*local, cloud, TIERS, started=False) as plane:
        for name in LOCAL:  # their fingerprint has to be known
            (plane.directory / name).mkdir()
            for file in ("model.gguf", "chat_template.jinja"):
                (plane.directory / name / file).write_text(name + file)
        plane.start()
        for name in (*LOCAL, "frontier"):
            plane.admin("switch", serve=name)
        write_profile(plane)
        for model in ("auto", "auto:chat", "auto:planning", "auto:code-write") * 5:
            turns = [{"role": "user", "content": "Plan the migration of our billing system"}]
            plane.ask("POST", "/v1/chat/completions", {"model": model, "messages": turns})
        yield plane


def write_profile(plane: Plane) -> None:
    found = plane.state / "fingerprints.json"
    poll(lambda: found.exists() and set(LOCAL) <= set(json.loads(found.read_bytes())), "fingerprints are known")
    marks = json.loads(found.read_bytes())
    rows = []
    for tier, task_class, passed, n, verdict, days in MEASURED:
        mark = marks[LOCAL[tier == "coder"]]
        rows.append({
            "tier": tier, "task_class": task_class, "identity": mark["identity"], "execution": mark["execution"],
            "n": n, "passed": passed, "verdict": verdict, "latency": 1.2, "source": "bootstrap",
            "dataset": "3b1f0c9d7a5e", "at": time.time() - days * DAY,
        })  # fmt: skip
    (plane.state / "profile.json").write_text(json.dumps({"version": 1, "rows": rows}))
    plane.admin("reload")
