"""The Grafana board, from the queries below.   scripts/grafana.py [--write]

Writes deploy/grafana/stoker.json. Without --write it says whether the file is in step, and exits 1 if it is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stoker.store.labels import STATES

BOARD = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "stoker.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
HEIGHT = 8
_COLOURS = ("#8e8e8e", "blue", "green", "yellow", "orange", "red", "purple", "dark-red", "light-blue", "semi-dark-red")
COLOURS = dict(zip(STATES, _COLOURS, strict=True))

HERE = 'instance=~"$instance"'
SERVE = f'{HERE}, serve=~"$serve"'
RATE = "$__rate_interval"


def rate(series: str, labels: str = HERE, by: str = "") -> str:
    total = f"sum by ({by}) " if by else "sum"
    return f"{total}(rate({series}{{{labels}}}[{RATE}]))"


def quantile(of: float, histogram: str, labels: str = SERVE, by: str = "serve") -> str:
    return f"histogram_quantile({of}, {rate(f'{histogram}_bucket', labels, f'{by}, le')})"


def device(series: str) -> str:
    return f"max by (device) (stoker_device_{series}{{{HERE}}})"


def state_number() -> str:
    """1 for the first state, 2 for the second: what a state timeline maps back to names."""
    numbered = (
        f'{at} * max by (serve) (stoker_serve_state{{{SERVE}, state="{state}"}})' for at, state in enumerate(STATES, 1)
    )
    return " + ".join(numbered)


class Panel(NamedTuple):
    title: str
    queries: dict[str, str]
    """PromQL by legend."""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    text: str = ""
    stacked: bool = False


FAILED = f'sum(rate(stoker_requests_total{{{HERE}, status=~"5.."}}[{RATE}])) or vector(0)'
ATTEMPTS = rate("stoker_tier_attempts_total", by="tier")
UNANSWERED = rate("stoker_tier_attempts_total", f'{HERE}, outcome!~"served|left"', "tier")
SWAP = "stoker_model_swap_duration_seconds"
ROWS: dict[str, list[Panel]] = {
    "Now": [
        Panel("Version", {"{{version}}": f"max by (version) (stoker_build_info{{{HERE}}})"}, kind="stat", width=4),
        Panel("Requests per second", {"": rate("stoker_requests_total")}, "reqps", "stat", 4),
        Panel(
            "Failed",
            {"": f"({FAILED}) / {rate('stoker_requests_total')}"},
            "percentunit",
            "stat",
            4,
            "Share of requests with a status from 500 on.",
        ),
        Panel("In flight", {"": f"sum(stoker_in_flight{{{HERE}}})"}, kind="stat", width=4),
        Panel("Waiting", {"": f"sum(stoker_queued{{{HERE}}})"}, kind="stat", width=4),
        Panel(
            "Output tokens per second",
            {"": rate("stoker_tokens_total", f'{HERE}, kind="output"')},
            kind="stat",
            width=4,
        ),
    ],
    "Requests": [
        Panel("Requests", {"{{serve}}": rate("stoker_requests_total", SERVE, "serve")}, "reqps", stacked=True),
        Panel("Outcomes", {"{{outcome}}": rate("stoker_requests_total", SERVE, "outcome")}, "reqps", stacked=True),
        Panel("Errors", {"{{code}}": rate("stoker_errors_total", by="code")}, "reqps", stacked=True),
        Panel(
            "Time to first token",
            {
                "p50 {{serve}}": quantile(0.5, "stoker_ttft_seconds"),
                "p95 {{serve}}": quantile(0.95, "stoker_ttft_seconds"),
            },
            "s",
            text="From the arrival of a request: waiting, loading and swapping included.",
        ),
        Panel(
            "Duration",
            {
                "p50 {{serve}}": quantile(0.5, "stoker_request_seconds"),
                "p95 {{serve}}": quantile(0.95, "stoker_request_seconds"),
            },
            "s",
        ),
        Panel(
            "Refused at the front door", {"{{reason}}": rate("stoker_front_door_refusals_total", by="reason")}, "reqps"
        ),
    ],
    "Who waits": [
        Panel("In flight", {"{{serve}}": f"sum by (serve) (stoker_in_flight{{{SERVE}}})"}, stacked=True),
        Panel("Waiting", {"{{serve}}": f"sum by (serve) (stoker_queued{{{SERVE}}})"}, stacked=True),
        Panel(
            "Time waited",
            {
                "p50 {{serve}}": quantile(0.5, "stoker_queue_seconds"),
                "p95 {{serve}}": quantile(0.95, "stoker_queue_seconds"),
            },
            "s",
            text="For a place, for a load, for a swap.",
        ),
    ],
    "Models and swaps": [
        Panel("States", {"{{serve}}": state_number()}, kind="state-timeline", width=WIDTH),
        Panel(
            "Swaps",
            {"{{slot}} {{outcome}}": f"sum by (slot, outcome) (increase(stoker_swaps_total{{{HERE}}}[{RATE}]))"},
        ),
        Panel(
            "Seconds of a swap",
            {"p50 {{serve}}": quantile(0.5, SWAP), "p95 {{serve}}": quantile(0.95, SWAP)},
            "s",
        ),
        Panel("Share of time spent swapping", {"": rate(f"{SWAP}_sum")}, "percentunit"),
        Panel(
            "Mean seconds of each phase",
            {
                "{{phase}}": f"{rate('stoker_model_swap_phase_seconds_sum', by='phase')}"
                f" / {rate('stoker_model_swap_phase_seconds_count', by='phase')}"
            },
            "s",
        ),
        Panel(
            "Failed loads",
            {"{{model}}": f"sum by (model) (increase(stoker_model_load_failures_total{{{HERE}}}[{RATE}]))"},
        ),
        Panel(
            "Predicted swaps",
            {"{{result}}": rate("stoker_preload_predictions_total", by="result")},
            "ops",
            stacked=True,
        ),
    ],
    "Tokens": [
        Panel(
            "Output tokens per second",
            {"{{serve}}": rate("stoker_tokens_total", f'{SERVE}, kind="output"', "serve")},
            stacked=True,
        ),
        Panel("Input tokens per second", {"{{kind}}": rate("stoker_tokens_total", f'{SERVE}, kind!="output"', "kind")}),
        Panel(
            "Tokens per second of the last stream",
            {"{{model}}": f'max by (model) (stoker_inference_tokens_per_second{{{HERE}, model=~"$serve"}})'},
        ),
    ],
    "Memory": [
        Panel("Serves", {"{{serve}}": f"sum by (serve) (stoker_serve_memory_bytes{{{SERVE}}})"}, "bytes", width=6),
        Panel("Accelerators", {"used": f"sum(stoker_vram_used_bytes{{{HERE}}})"}, "bytes", width=6),
        Panel(
            "Main memory",
            {
                "used": f"sum(stoker_ram_used_bytes{{{HERE}}})",
                "warm models": f"sum(stoker_warm_bytes{{{HERE}}})",
                "warm models, at most": f"sum(stoker_warm_budget_bytes{{{HERE}}})",
            },
            "bytes",
            width=6,
        ),
        Panel(
            "Request bodies",
            {
                "in memory": f"sum(stoker_body_bytes{{{HERE}}})",
                "at most": f"sum(stoker_body_budget_bytes{{{HERE}}})",
            },
            "bytes",
            width=6,
        ),
    ],
    "Devices": [
        Panel("Use", {"{{device}}": device("use_ratio")}, "percentunit"),
        Panel("Temperature", {"{{device}}": device("temperature_celsius")}, "celsius"),
        Panel("Power", {"{{device}}": device("power_watts")}, "watt", stacked=True),
        Panel(
            "Memory",
            {"{{device}}": device("memory_used_bytes"), "{{device}}, at most": device("memory_bytes")},
            "bytes",
        ),
        Panel(
            "Slowed down by",
            {"{{device}} {{reason}}": f"max by (device, reason) (stoker_device_throttled{{{HERE}}})"},
            text="power: it is at its limit, as at full work. heat, hardware: check its cooling and its power supply.",
        ),
        Panel(
            "Joules per 1,000 tokens",
            {
                "{{key}}": f"1000 * {rate('stoker_key_energy_joules_total', by='key')} / "
                f"""{rate("stoker_key_tokens_total", f'{HERE}, kind="output"', "key")}"""
            },
            text="Of all answers, those of clouds included.",
        ),
    ],
    "Tiers": [
        Panel("Requests by tier", {"{{tier}}": rate("stoker_routed_requests_total", by="tier")}, "reqps", stacked=True),
        Panel(
            "Attempts that did not answer",
            {"{{tier}}": f"({UNANSWERED} or 0 * {ATTEMPTS}) / {ATTEMPTS}"},
            "percentunit",
        ),
        Panel(
            "Answers found wrong", {"{{tier}} {{check}}": rate("stoker_tier_findings_total", by="tier, check")}, "ops"
        ),
        Panel(
            "Verdicts of the judge",
            {"{{tier}} {{verdict}}": rate("stoker_shadow_graded_total", by="tier, verdict")},
            "ops",
        ),
        Panel(
            "Circuits that are not closed",
            {"{{tier}} {{state}}": f'max by (tier, state) (stoker_tier_circuit{{{HERE}, state!="closed"}})'},
        ),
        Panel(
            "Cost per hour",
            {
                "{{tier}}": f"sum by (tier) (rate(stoker_tier_cost_total{{{HERE}}}[1h])) * 3600",
                "saved": f"sum(rate(stoker_routed_cost_saved_total{{{HERE}}}[1h])) * 3600",
            },
        ),
    ],
    "Keys": [
        Panel("Requests by key", {"{{key}}": rate("stoker_key_requests_total", by="key")}, "reqps", stacked=True),
        Panel(
            "Tokens by key",
            {"{{key}}": rate("stoker_key_tokens_total", f'{HERE}, kind=~"input|output"', "key")},
            stacked=True,
        ),
        Panel(
            "Accelerator-seconds by key",
            {"{{key}}": rate("stoker_key_accelerator_seconds_total", by="key")},
            "percentunit",
            text="1 is one slot that works for this key all the time.",
            stacked=True,
        ),
        Panel("Refused by a limit", {"{{key}}": rate("stoker_key_limited_total", by="key")}, "reqps"),
        Panel("Swap seconds by key", {"{{key}}": rate("stoker_key_swap_seconds_total", by="key")}, "percentunit"),
        Panel("Cost by key, per hour", {"{{key}}": f"sum by (key) (rate(stoker_key_cost_total{{{HERE}}}[1h])) * 3600"}),
    ],
}


def board() -> dict[str, Any]:
    return {
        "title": "Stoker",
        "uid": "stoker",
        "description": "Requests, models, swaps, memory, tiers and keys of Stoker.",
        "tags": ["stoker", "llm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [datasource(), variable("instance"), variable("serve")]},
        "panels": list(panels()),
    }


def datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def variable(label: str) -> dict[str, Any]:
    query = f"label_values(stoker_serve_state, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def panels() -> Iterator[dict[str, Any]]:
    number, down = 0, 0
    for title, row in ROWS.items():
        number += 1
        place = {"x": 0, "y": down, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        down, right, height = down + 1, 0, 0
        for one in row:
            if right + one.width > WIDTH:
                down, right = down + height, 0
            number, height = number + 1, HEIGHT // 2 if one.kind == "stat" else HEIGHT
            yield {"id": number, **panel(one), "gridPos": {"x": right, "y": down, "w": one.width, "h": height}}
            right += one.width
        down += height


def panel(one: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for at, (legend, expression) in enumerate(one.queries.items())
    ]
    defaults: dict[str, Any] = {"unit": one.unit, "min": 0}
    options: dict[str, Any] = {}
    if one.kind == "stat":
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "textMode": "name" if one.title == "Version" else "auto",
        }
    elif one.kind == "state-timeline":
        states = {str(at): {"text": state, "color": COLOURS[state]} for at, state in enumerate(STATES, 1)}
        defaults = {"mappings": [{"type": "value", "options": states}], "color": {"mode": "thresholds"}}
        options = {"mergeValues": True, "showValue": "auto", "legend": {"showLegend": False}}
    else:
        stacking = {"mode": "normal"} if one.stacked else {"mode": "none"}
        defaults["custom"] = {"fillOpacity": 20 if one.stacked else 5, "stacking": stacking, "showPoints": "never"}
        options = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}}
    about = {"description": one.text} if one.text else {}
    return {
        "type": one.kind,
        "title": one.title,
        **about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": targets,
    }


def main() -> int:
    text = json.dumps(board(), indent=2) + "\n"
    if BOARD.exists() and BOARD.read_text() == text:
        return 0
    if "--write" in sys.argv[1:]:
        BOARD.write_text(text)
        return 0
    print("deploy/grafana/stoker.json is not in step: run scripts/grafana.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
