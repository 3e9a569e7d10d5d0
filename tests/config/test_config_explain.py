"""What is shown is what runs: it reads back, hides secrets, and the page and the JSON schema say the same."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.examples import examples

from stoker.config.effective import schema, show, to_toml
from stoker.config.load import load
from stoker.config.toml_writer import render
from stoker.config.warnings import warnings
from stoker.domain.access import ListenSettings, Paths, Settings
from stoker.domain.definition import keys_of
from stoker.domain.dialect import MEDIA
from stoker.domain.errors import ConfigError
from stoker.domain.key import KeySettings
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, Slot

Loaded = Callable[[str], Settings]
ROOT = Path(__file__).parents[2]
SCHEMA = schema()
SECRET = "sk-very-secret-indeed"

FULL = """
[front_door]
host = "0.0.0.0"
loading = "reasoning"
auth = "keys"
prefixes = ["/llm"]
allowed_hosts = ["box.lan"]
allowed_origins = ["https://chat.lan"]
trusted_proxies = ["10.0.0.7"]
keys = [
  { name = "team", value = "env:STOKER_TEST_KEY", scope = "observe", max_active = 4, ollama_api = "refuse" },
  { name = "me", value = "file:me.key", app = "agents", cloud = false, models = ["auto:planning", "near", "a"] },
]
queue_bytes = "8MiB"
[app.agents]
scope = "inference"
models = ["*"]
classes = ["chat"]
tools = ["web"]
cloud = true
ollama_api = "answer"
priority = "background"
weight = 2.0
max_active = 8
context = 32768
max_output = 4096
requests_per_minute = 60
tokens_per_minute = 100000
input_tokens_per_minute = 80000
output_tokens_per_minute = 20000
tokens_per_day = 2000000
tokens_per_month = 20000000
cost_per_day = 2.5
cost_per_month = 20.0
default_model = "near"
system_prompt = "Answer in English."
thinking = false
sampling = { temperature = 0.2 }
verify = "observe"
[alias."two words"]
serves = ["b", "a:high"]
pick = "loaded"
[alias.one]
serve = "a"
[paths]
state = "state"
log_bytes = "1.5MB"
[slots.gpu0]
devices = [0]
memory = "10GiB"
together = [["a", "b"]]
baseline = "a"
idle_serve = "b"
idle_serve_after = "90s"
swap = { linger = "100ms", swap_timeout = "1h" }
[slots."gpu.1"]
[slots.gpu2]
[clusters.lab]
address = "http://head:8265"
token = "env:STOKER_TEST_KEY"
[slots.lab-a]
cluster = "lab"
gpus = 2
node = { box = "alpha" }
[[serve]]
name = "a"
model = "a.gguf"
slot = "gpu0"
memory = "7GiB"
status = "rejected-too slow"
idle_unload = "10m"
evict_cost = 2.5
key = "env:STOKER_TEST_KEY"
embedded = false
context = 100
translation = { strict = true, always = ["messages"], thinking_field = "none", tool_ids = "short" }
requires = { packages = { "odd name" = ">=1" }, files = ["f"] }
request = { set = { top_k = 40, kwargs = { thinks = false, "odd name" = [1, { x = 0.5 }] } }, drop = ["seed"] }
[[serve.variant]]
name = "a:high"
title = "A, high"
description = "thinks"
listed = false
set = { kwargs = { thinks = true, list = [{ x = 1 }] } }
default = { temperature = 0.5 }
drop = ["top_p"]
[[serve.variant]]
name = "a:plain"
[[serve]]
name = "b"
engine = "openai"
model = 'quote " backslash \\\\ ünï'
cmd = ["run", "--port", "{port}"]
slot = "gpu0"
memory = "1GiB"
stop = "end {pid} {{x}}"
base_path = "/llm/"
cwd = "elsewhere"
inherit_env = ["HF_TOKEN", "*"]
port = 9001
env = { PLAIN = "tab\\tdel\\u007f" }
[[serve]]
name = "several"
engine = "openai"
cmd = ["run", "--port", "{port}"]
slots = ["gpu.1", "gpu2"]
replicas = 2
also = [
  { base_url = "http://box2:8000/v1", name = "far", model = "q", key = "file:me.key", max_active = 3 },
  { base_url = "http://box3/v1" },
]
[[serve]]
name = "c"
base_url = "http://far:1/v1"
dialects = ["rerank"]
fallback = "d"
fallback_on = ["unavailable", "busy"]
[[serve]]
name = "d"
container = "vllm-d"
model = "org/d"
port = 9002
up = "docker compose -f {dir}/d.yml up -d vllm-d"
source = "rsync:nas:/models/d"
[[serve]]
name = "e"
engine = "vllm"
min_tokens_per_second = 20.0
first_byte_timeout = "4m"
purpose = "e"
title = "E"
description = "an example"
metadata = { family = "x", size = 7 }
identity = "none"
probe = "/ping"
threads = 2
gpu_layers = 3
tensor_parallel = 2
pipeline_parallel = 1
batched_tokens = 100
dtype = "bfloat16"
quantization = "awq"
load_format = "auto"
kv_cache_type = "fp8"
prefix_caching = false
graphs = true
tool_parser = "hermes"
reasoning_parser = "qwen3"
chat_template = "t.jinja"
thinking = false
driver = "systemd"
model = "org/e"
port = 9003
sleep_level = 2
sha256 = { "a.safetensors" = "%s" }
attention_backend = ["flashinfer", "triton"]
memory_fraction = 0.9
sampling = { temperature = 0.6 }
rendezvous = "10.0.0.1:29500"
cpu_moe = true
n_cpu_moe = 4
speculative = "mtp"
mmproj = "p.gguf"
adapters = ["a"]
kv_offload = "8GiB"
kv_offload_backend = "native"
warm = "pin"
[warm]
memory = "32GiB"
[watchdog]
stall = "90s"
[conversations]
age = "2h"
[media]
fetch = true
hosts = ["img.example.com", "*.cdn.example.com"]
max_bytes = "5MiB"
timeout = "2.5s"
max_images = 3
[router]
profile_path = "quality/profile.json"
high_risk = ["planning", "contracts"]
allow_cloud = false
cloud_classes = ["chat", "contracts"]
breaker_failures = 2
breaker_window = "1m"
breaker_cool_down = "5s"
explore = 0.01
[router.shadow]
rate = 0.25
judge = "far"
cost_cap = 2.5
queue = 3
timeout = "5s"
[router.classifier]
serve = "a"
timeout = "250ms"
below = 0.9
[router.class.contracts]
words = ["clause", "party of the first part"]
tier = "far"
[router.class.planning]
[[tier]]
name = "near"
serve = "a"
verify = "observe"
verify_class = { contracts = "hold-all", json-extract = "off" }
classes = ["planning", "contracts"]
[[tier]]
name = "far"
base_url = "https://api.example.com/v1"
dialect = "messages"
key = "env:STOKER_TEST_KEY"
model = "vendor/big-model"
cloud = true
first_byte_timeout = "45s"
max_active = 7
cost = { input = 3, output = 15.5 }
""" % ("ab" * 32)


@pytest.fixture
def full(loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("STOKER_TEST_KEY", SECRET)
    (tmp_path / "me.key").write_text(SECRET + "2")
    (tmp_path / "me.key").chmod(0o600)
    return loaded(FULL)


class TestShow:
    """Effective values, in the file's own form."""

    def test_what_is_shown_reads_back_to_the_same_settings(self, full: Settings, loaded: Loaded) -> None:
        again = loaded(to_toml(full))
        for field in fields(Settings):
            assert getattr(again, field.name) == getattr(full, field.name), field.name

    def test_the_text_and_the_table_are_the_same(self, full: Settings) -> None:
        empty: dict[str, object] = {"orchestrator": {}, "edge": {}, "tools": {}, "boxes": {}}
        assert {**tomllib.loads(to_toml(full)), **empty} == show(full)
        assert json.loads(json.dumps(show(full))) == show(full)

    def test_a_secret_is_shown_as_its_source(self, full: Settings) -> None:
        text = to_toml(full)
        assert SECRET not in text + repr(full)
        assert text.count('"env:STOKER_TEST_KEY"') == 4
        assert '"file:me.key"' in text

    def test_what_looks_like_a_secret_is_hidden_and_warned_about(self, loaded: Loaded) -> None:
        settings = loaded(
            f"""
            [[serve]]
            name = "a"
            engine = "openai"
            cmd = ["run", "{{port}}", "--api-key", "{SECRET}", "--hf-token={SECRET}", "--key", "{{key}}", "--keys", "x"]
            extra_args = ["--api-key={{key}}"]
            env = {{ HF_TOKEN = "{SECRET}", MONKEY = "visible" }}
            """
        )
        text = to_toml(settings)
        assert SECRET not in text + "".join(warnings(settings))
        assert '["run", "{port}", "--api-key", "***", "--hf-token=***", "--key", "{key}", "--keys", "x"]' in text
        assert "--api-key={key}" in text
        assert "visible" in text
        assert [w for w in warnings(settings) if "env.HF_TOKEN" in w]
        assert not [w for w in warnings(settings) if "MONKEY" in w or "--keys" in w]
        assert sum("is a secret in the configuration file: give it as" in w for w in warnings(settings)) == 2

    def test_every_field_of_a_record_is_a_key_or_follows_from_some(self) -> None:
        """A setting that cannot be configured would be a dead one."""
        follow = {
            Serve: {
                "alias_patterns", "directory", "die_with_parent", "asks_dialects", "from_tier", "is_served_name_public",
                "auto_context", "context_problem", "device_problem",
                "before_mask", "replica_of", "job_place", "box_place", "min_replicas",
            },
            KeySettings: set(),
            ListenSettings: set(),
            Paths: set(),
            Slot: {"name", "box"},
            RouterSettings: {"tiers", "aliases"},
        }  # fmt: skip
        for record, others in follow.items():
            names = getattr(record, "__struct_fields__", None) or {one.name for one in fields(record)}
            keys = keys_of(record).values()
            assert {*names} - {name for key in keys for name in (key.field, key.group)} == others, record

    def test_every_key_is_shown(self, full: Settings) -> None:
        shown: Any = show(full)
        known = {name: set(table["properties"]) for name, table in SCHEMA["$defs"].items()}
        for path, table in {
            ("warm",): "WarmPool",
            ("watchdog",): "Watchdog",
            ("conversations",): "Conversations",
            ("media",): "Media",
            ("app", "agents"): "App",
            ("paths",): "Paths",
            ("slots", "gpu0", "swap"): "SwapPolicy",
            ("router",): "RouterSettings",
            ("router", "shadow"): "ShadowSettings",
            ("router", "classifier"): "ClassifierModelSettings",
        }.items():
            assert set(reduce(getitem, path, shown)) == known[table], path
        assert known["ListenSettings"] - set(shown["front_door"]) == {"tls"}, "it needs real files"
        assert {key for tier in shown["tier"] for key in tier} == known["TierTable"]
        in_any = {key for serve in shown["serve"] for key in serve}
        assert known["ServeRow"] - in_any == {"extends", "abstract"}


values = st.recursive(
    st.text(max_size=20)
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_plain_table_is_rendered_so_that_it_reads_back(table: dict[str, Any]) -> None:
    assert tomllib.loads(render(table)) == table


KEYS = [
    (section, key)
    for section, table in {
        "[front_door]": "ListenSettings",
        "[[front_door.keys]]": "Key",
        "[app.agents]": "App",
        "[paths]": "Paths",
        "[swap]": "SwapPolicy",
        "[slots.g]": "Slot",
        "[[serve]]": "ServeRow",
        "[media]": "Media",
        "[router]": "RouterSettings",
        "[router.class.planning]": "TaskClass",
        "[router.shadow]": "ShadowSettings",
        "[router.classifier]": "ClassifierModelSettings",
        "[[tier]]": "TierTable",
    }.items()
    for key in SCHEMA["$defs"][table]["properties"]
    if (section, key)
    not in (
        ("[front_door]", "keys"),
        ("[router]", "class"),
        ("[router]", "shadow"),
        ("[router]", "classifier"),
    )  # beside their rows that is no TOML
]


@given(st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=4))
@hypothesis_settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_value_of_any_key_breaks_the_reader(tmp_path: Path, parts: list[tuple[tuple[str, str], Any]]) -> None:
    """Nonsense anywhere ends in settings or in a list of problems that have lines, never in another error."""
    tables: dict[str, dict[str, Any]] = {}
    for (section, key), value in parts:
        tables.setdefault(section, {})[key] = value
    text = ""
    for section, table in tables.items():
        text += f"{section}\n" + "".join(
            f"{key} = {render({'x': [value]}).strip()[4:]}\n" for key, value in table.items() if not _has_table(value)
        )
    path = tmp_path / "stoker.toml"
    path.write_text(text, encoding="utf-8")
    try:
        problems = [] if show(load(path)) else ["nothing to show"]
    except ConfigError as error:
        problems = error.problems or ["nothing to say"]
    for problem in problems:
        place = re.match(rf"{re.escape(str(path))}:(\d+): key '", problem)
        assert place is not None, problem
        assert 1 <= int(place[1]) <= text.count("\n")


def _has_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_table, value)))


class TestWarnings:
    """What works and is probably not meant."""

    def only(self, settings: Settings) -> str:
        [warning] = warnings(settings)
        return warning

    @pytest.fixture
    def weights(self, tmp_path: Path) -> str:
        (tmp_path / "x").touch()
        return "[[serve]]\nname = 'a'\nmodel = 'x'\n"

    def test_a_good_file_has_none(self, loaded: Loaded, weights: str) -> None:
        assert warnings(loaded(weights)) == []

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ("max_active = 5", "serve 'a': max_active 5 is above parallel 4"),
            ("keep_loaded = true\nidle_unload = '1m'", "serve 'a': keep_loaded overrides idle_unload"),
            ("host = '0.0.0.0'", "serve 'a': host 0.0.0.0: other machines can reach the engine"),
            ("[front_door]\nhost = '10.0.0.1'\nauth = 'none'", 'front_door: auth = "none" on 10.0.0.1'),
            ("[slots.p]\ndevices = [0]\n[slots.q]\ndevices = [1, 0]", "slots 'p' and 'q' both use device 0"),
            (
                "slot = 's'\nfallback = 'b'\nfallback_on = ['busy']\n[[serve]]\nname = 'b'\nmodel = 'x'\nslot = 's'\n"
                "[slots.s]",
                "serve 'a': when it is busy, its fallback 'b' has to swap it out, because slot 's' holds one serve",
            ),
            (
                "keep_loaded = true\nslot = 's'\n[[serve]]\nname = 'b'\nmodel = 'x'\nslot = 's'\n[slots.s]",
                "slot 's' holds one serve at a time and 'a' stays loaded: the others in the slot can never run",
            ),
            (
                "slot = 's'\nstatus = 'rejected'\n[slots.s]\nidle_serve = 'a'",
                "slot 's' never returns to 'a', its idle_serve, because its status is rejected; change its "
                "`status`, or name another serve",
            ),
            (
                "slot = 's'\nmemory = '6GB'\nstatus = 'blocked'\nreason = 'bad'\n"
                "[slots.s]\nmemory = '9GB'\nidle_serve = 'a'",
                "slot 's' never returns to 'a', its idle_serve, because its status is blocked (bad); change",
            ),
            (
                "slot = 's'\nmemory = '6GB'\n[[serve]]\nname = 'b'\nmodel = 'x'\nslot = 's'\n"
                "memory = '6GB'\nkeep_loaded = true\n[slots.s]\nmemory = '10GB'\nidle_serve = 'a'",
                "slot 's' never returns to 'a', its idle_serve, because it does not fit beside 'b', which stays "
                "loaded; give the slot more `memory`, or remove keep_loaded",
            ),
        ],
    )
    def test_each_is_said_once(self, loaded: Loaded, weights: str, more: str, expected: str) -> None:
        assert self.only(loaded(weights + more)).startswith(expected)

    def test_missing_weights_are_named_where_an_engine_would_read_them(self, loaded: Loaded, tmp_path: Path) -> None:
        settings = loaded("[[serve]]\nname = 'a'\nmodel = 'gone.gguf'")
        assert str(tmp_path / "gone.gguf") in self.only(settings)
        (tmp_path / "linked.gguf").symlink_to("/nowhere/m.gguf")
        linked = self.only(loaded("[[serve]]\nname = 'a'\nmodel = 'linked.gguf'"))
        assert "linked.gguf are a link to /nowhere/m.gguf, which does not exist" in linked
        assert warnings(loaded("[[serve]]\nname = 'a'\nmodel = 'gone'\ncmd = 'run {port}'")) == []
        assert warnings(loaded("[[serve]]\nname = 'a'\nmodel = 'hub/id'\nbase_url = 'http://h/v1'")) == []

    def test_an_empty_file_is_told_what_to_do_next(self, loaded: Loaded) -> None:
        assert "`stoker init`" in self.only(loaded(""))

    def test_every_address_without_allowed_hosts_and_keys_that_nobody_asks_for(
        self, loaded: Loaded, full: Settings
    ) -> None:
        door = full.front_door
        good = warnings(full)
        for changed, expected in [
            (replace(door, allowed_hosts=()), "no `allowed_hosts`"),
            (replace(door, auth=False, host="127.0.0.1"), "the keys are not checked"),
        ]:
            [new] = set(warnings(replace(full, front_door=changed))) - set(good)
            assert expected in new

    def test_a_secret_file_that_others_can_read(self, full: Settings, tmp_path: Path) -> None:
        before = warnings(full)
        (tmp_path / "me.key").chmod(0o644)
        [new] = set(warnings(full)) - set(before)
        assert new.startswith("file:me.key: other users of this machine can read or change this file; type `chmod 600 ")


class TestInStep:
    """Page, JSON schema, example and code say the same."""

    PAGE = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")

    def rows(self, heading: str) -> dict[str, str]:
        """The key rows below a heading, up to the next heading."""
        part = self.PAGE.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
        return {m[1]: m[2].strip() for m in re.finditer(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", part, re.MULTILINE)}

    @pytest.mark.parametrize(
        ("heading", "table"),
        [
            ("## [front_door]", "ListenSettings"),
            ("### Each of `front_door.keys`", "Key"),
            ("## [app.NAME]", "App"),
            ("## [paths]", "Paths"),
            ("## [slots.NAME]", "Slot"),
            ("## [clusters.NAME]", "Cluster"),
            ("## [swap], and [slots.NAME.swap]", "SwapPolicy"),
            ("## [[serve]]", "ServeRow"),
            ("### `requires`", "Requires"),
            ("### `translation`", "Translation"),
            ("### `request`", "RequestParameters"),
            ("### `variant`", "ServeVariant"),
            ("### `also`", "AlsoServed"),
            ("## [gate.NAME]", "Gate"),
            ("## [alias.NAME]", "AliasTable"),
            ("## [edge.NAME]", "EdgeTable"),
            ("### [edge.NAME.ec2]", "Ec2Table"),
            ("## [compat]", "CompatPaths"),
            ("## [responses]", "ResponseStorage"),
            ("## [media]", "Media"),
            ("## [router]", "RouterSettings"),
            ("### [router.class.NAME]", "TaskClass"),
            ("### [router.shadow]", "ShadowSettings"),
            ("### [router.classifier]", "ClassifierModelSettings"),
            ("## [[tier]]", "TierTable"),
            ("### `cost`", "Cost"),
        ],
    )
    def test_the_page_has_every_key_with_its_default(self, heading: str, table: str) -> None:
        properties = SCHEMA["$defs"][table]["properties"]
        rows = self.rows(heading)
        assert set(rows) == set(properties)
        for key, node in properties.items():
            if "default" in node and node["default"] != {}:
                assert rows[key] == f"`{json.dumps(node['default'])}`", key

    def test_the_page_has_every_section(self) -> None:
        assert set(self.rows("## The sections")) == set(SCHEMA["properties"])

    def test_the_schema_file_is_the_schema(self) -> None:
        """If not: stoker config schema > docs/reference/stoker.schema.json"""
        assert json.loads((ROOT / "docs/reference/stoker.schema.json").read_text(encoding="utf-8")) == SCHEMA

    def test_every_schema_reference_resolves_and_there_is_no_null(self) -> None:
        text = json.dumps(SCHEMA)
        for name in re.findall(r'"#/\$defs/(\w+)"', text):
            assert name in SCHEMA["$defs"]
        assert "null" not in text

    def test_the_example_and_the_first_file_of_the_page_load(self, loaded: Loaded) -> None:
        example = load(ROOT / "examples/stoker.toml")
        assert [serve.name for serve in example.serves] == ["fast", "clever", "shared"]
        media = load(ROOT / "examples/speech-and-images.toml")
        assert all(serve.dialects & MEDIA for serve in media.serves)
        assert warnings(media) == []
        first = self.PAGE.split("```toml\n", 1)[1].split("```", 1)[0]
        assert [serve.name for serve in loaded(first).serves] == ["fast", "clever"]
        assert all(warning.endswith("until they do") for warning in warnings(example))


def test_weights_whose_file_system_does_not_answer_are_warned_about_once_it_is_known(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, gate, exists = loaded('[[serve]]\nname = "a"\nmodel = "dead/a.gguf"\n'), threading.Event(), Path.exists
    monkeypatch.setattr("stoker.config.warnings.LOOKED_FOR", 0.05)
    monkeypatch.setattr(Path, "exists", lambda path: gate.wait(10) if "dead" in str(path) else exists(path))
    [found] = [one for one in warnings(settings) if "dead" in one]
    assert "its file system does not answer" in found
    gate.set()
