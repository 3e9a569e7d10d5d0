"""The Grafana board and the alert rules, on a real Prometheus that scrapes a real Stoker."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, free_port, poll, running, serve, until

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "deploy" / "grafana" / "stoker.json"
RULES = ROOT / "deploy" / "prometheus"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="no Prometheus here: apt-get install prometheus"
)

KEYS = {"APP_KEY": "key-app-sixteen-letters", "PROMETHEUS_KEY": "key-prometheus-observes"}
DOOR = """keys = [
  { name = "app", value = "env:APP_KEY" },
  { name = "prometheus", value = "env:PROMETHEUS_KEY", scope = "observe" },
]"""
TIERS = """
[[tier]]
name = "small"
serve = "a"
cost = { input = 0.1, output = 0.2 }
"""
WITHOUT_DATA = {
    "Accelerators: used": "no GPU",
    "Answers found wrong: {{tier}} {{check}}": "no answer is wrong",
    "Verdicts of the judge: {{tier}} {{verdict}}": "nobody judges",
    "Cost per hour: saved": "no cloud",
    "Refused by a limit: {{key}}": "no limit",
    "Failed loads: {{model}}": "every load succeeds",
    **dict.fromkeys(
        (
            *(
                "Use: {{device}}",
                "Temperature: {{device}}",
                "Power: {{device}}",
                "Slowed down by: {{device}} {{reason}}",
            ),
            *("Memory: {{device}}", "Memory: {{device}}, at most"),
        ),
        "no accelerator",
    ),
}
"""Queries that show nothing in this test, and why."""


def board() -> dict[str, Any]:
    return dict(json.loads(BOARD.read_text()))


def targets(panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Title and legend of each query, and its PromQL."""
    for panel in panels:
        for target in panel.get("targets", ()):
            yield f"{panel['title']}: {target['legendFormat']}", target["expr"]


def expressions() -> list[str]:
    rules = re.findall(r"expr: (?:\|\n)?(.*?)\n        (?:for|labels):", (RULES / "alerts.yml").read_text(), re.DOTALL)
    return [*(expression for _, expression in targets(board()["panels"])), *rules]


def test_the_board_is_whole() -> None:
    document = board()
    panels = document["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    variables = {one["name"]: one for one in document["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(document))) - {"__rate_interval", "__all"}
    assert used == set(variables)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["targets"]
            assert all(one["expr"] and one["datasource"] == panel["datasource"] for one in panel["targets"])
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken), "two panels overlap"


def test_board_and_alerts_ask_only_for_documented_series() -> None:
    documented = set(re.findall(r"`(stoker_\w+)", (ROOT / "docs" / "reference" / "metrics.md").read_text()))
    asked = {name for expression in expressions() for name in re.findall(r"stoker_\w+", expression)}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} - documented == set()


@needs_prometheus
@pytest.mark.parametrize("words", [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"),
                                   ("test", "rules", "alerts_test.yml")], ids=" ".join)  # fmt: skip
def test_promtool_accepts(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *words], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A Prometheus in a folder of its own, with the configuration that the guide shows."""

    def __init__(self, folder: Path, plane: Plane) -> None:
        self.port = free_port()
        (folder / "alerts.yml").write_text((RULES / "alerts.yml").read_text())
        (folder / "stoker.key").write_text(KEYS["PROMETHEUS_KEY"])
        config = (RULES / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:8000", f"127.0.0.1:{plane.port}").replace("# authorization", "authorization")
        (folder / "prometheus.yml").write_text(config.replace("15s", "200ms"))
        command = [str(PROMETHEUS), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        command.append(f"--web.listen-address=127.0.0.1:{self.port}")
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=log)

    def ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.loads(reply.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{query}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[Any]:
        """The samples, with what Grafana fills in."""
        filled = expression.replace("$__rate_interval", "30s").replace("$instance", ".*").replace("$serve", ".*")
        return list(self.ask("query", query=filled)["result"])

    def value(self, expression: str) -> float:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else 0.0

    def is_up(self) -> bool:
        try:
            return self.value("up") == 1
        except (OSError, AssertionError):  # it does not listen yet, or is still starting
            return False


@pytest.fixture
def plane() -> Iterator[Plane]:
    tables = (serve("a"), serve("b"), TIERS, '[warm]\nmemory = "1MiB"')
    with running(*tables, front_door=DOOR, environment=KEYS) as plane:
        yield plane


@pytest.fixture
def prometheus(plane: Plane, tmp_path: Path) -> Iterator[Prometheus]:
    one = Prometheus(tmp_path, plane)
    try:
        poll(one.is_up, lambda: (tmp_path / "log").read_text())
        yield one
    finally:
        one.process.terminate()
        one.process.wait()


async def traffic(plane: Plane) -> None:
    """Every kind of request that a panel shows: one of each serve, so that there are swaps, and errors."""
    app = (("authorization", f"Bearer {KEYS['APP_KEY']}"),)
    for model in ("a", "b"):
        assert (await ask(plane, model, "script: tokens=8 gap=0.02", headers=app, stream=True)).status == 200
    assert (await ask(plane, "auto:chat", headers=app)).status == 200
    assert (await ask(plane, "nobody", headers=app)).status == 404
    assert (await ask(plane, "a", headers=(("authorization", "Bearer wrong"),))).status == 401


@needs_prometheus
@story
async def test_every_query_of_board_and_alerts_has_data(plane: Plane, prometheus: Prometheus) -> None:
    await traffic(plane)
    tokens = 'sum(stoker_key_tokens_total{key="app"})'
    await until(lambda: prometheus.value(tokens) > 0, "the first traffic was scraped")
    before = prometheus.value(tokens)
    await traffic(plane)
    await until(lambda: prometheus.value(tokens) > before, "the second one, too")

    asked = list(targets(board()["panels"]))

    def empty() -> set[str]:
        return {title for title, expression in asked if not prometheus.query(expression)}

    await until(lambda: empty() == set(WITHOUT_DATA), lambda: f"{empty()} have no data")  # memory is measured later
    assert prometheus.value('sum(rate(stoker_requests_total{serve="a"}[30s]))') > 0
    assert prometheus.value('sum(increase(stoker_swaps_total{outcome="ready"}[30s]))') > 0

    for variable in ("instance", "serve"):
        assert await asyncio.to_thread(prometheus.ask, f"label/{variable}/values")
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    await until(lambda: all(rule["health"] == "ok" for rule in rules), lambda: f"all rules were evaluated: {rules}")
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
