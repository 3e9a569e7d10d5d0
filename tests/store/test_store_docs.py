"""The pages for people who read figures and decisions name all of them, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from tests.auto.test_routed_counts import ROUTING, every_count
from tests.orchestrator.test_orchestrated_counts import blocks
from tests.store.test_metrics import STATUS, full

from stoker.domain.decision import Attempt, Candidate, Decision, OrchestratedRecord, Routed, ToolRecord, WaitPart
from stoker.domain.usage import MediaUnits
from stoker.fleet.memory.devices import Device
from stoker.store.exposition import expose
from stoker.store.labels import OUTCOMES, STATES
from stoker.store.metrics import Metrics
from stoker_auto import exposition as routed
from stoker_devices.reading import DeviceReading
from stoker_devices.server import families as device_families
from stoker_orchestrator import exposition as orchestrated
from stoker_otel.server import TelemetryPart
from stoker_otel.settings import Telemetry
from stoker_otel.telemetry import TelemetryOptions, TelemetrySender
from stoker_tools.running import ToolCounts
from stoker_tools.server import families as tool_families

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def first_column(page: str) -> list[str]:
    """The names in backticks that start a table's row, without their labels."""
    return re.findall(r"^\| `([a-z_.]+)", (DOCS / page).read_text(), flags=re.MULTILINE)


def test_metrics_page_lists_every_series_once_and_only_those() -> None:
    sender = TelemetrySender(Telemetry(), TelemetryOptions(), "0", Metrics(), dict)
    telemetry = TelemetryPart(sender)
    device = DeviceReading(
        Device(0, "GPU-a", "L4", "nvidia", 2, 1), use=0.5, temperature=60, temperature_limit=90, watts=50,
        watts_limit=72, joules=1, core_mhz=2000, memory_mhz=6000, throttled=frozenset(),
    )  # fmt: skip
    added = [
        *telemetry.metrics(),
        *device_families([device]),
        *tool_families({"web": ToolCounts()}),
        *routed.families(every_count(), ROUTING),
        *orchestrated.families(blocks()),
    ]
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in text_string_to_metric_families(expose(full(), STATUS, added).decode())
    }
    rows = re.findall(r"^\| `([a-z_]+)(?:\{([a-z_,]*)\})?`", (DOCS / "metrics.md").read_text(), flags=re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(families)
    for name, documented in rows:
        shown = set().union(*(sample.labels for sample in families[name].samples)) - {"le"}
        assert set(filter(None, documented.split(","))) == shown, name


def test_metrics_page_explains_each_state() -> None:
    page = (DOCS / "metrics.md").read_text()
    assert [state for state in STATES if f"`{state}`" not in page] == []


def test_decisions_page_lists_every_field_and_only_those() -> None:
    fields = [field.name for field in msgspec.structs.fields(Decision)]
    parts = [
        f"{part}.{field.name}"
        for part, kind in (
            ("candidates", Candidate),
            ("routed", Routed),
            ("routed.attempts", Attempt),
            ("orchestrated", OrchestratedRecord),
            ("media", MediaUnits),
            ("waits", WaitPart),
            ("tools", ToolRecord),
        )
        for field in msgspec.structs.fields(kind)
    ]
    assert sorted(name for name in first_column("decisions.md") if name not in OUTCOMES) == sorted(fields + parts)


def test_decisions_page_explains_each_outcome() -> None:
    assert sorted(set(first_column("decisions.md")) & OUTCOMES) == sorted(OUTCOMES)
