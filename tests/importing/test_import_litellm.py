"""`stoker import litellm`: a proxy's config.yaml as external serves, and a row for everything that it says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.main import run
from stoker.config.load import load
from stoker.domain.serve import Serve

Captured = pytest.CaptureFixture[str]
CONFIG = """\
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/OPENAI_API_KEY
      rpm: 100
    model_info:
      input_cost_per_token: 0.0000025
      output_cost_per_token: 0.00001
      cache_read_input_token_cost: 0.00000125
      id: abc
  - model_name: smart
    litellm_params:
      model: anthropic/claude-sonnet-4-5
      api_key: sk-ant-marker-secret
      max_parallel_requests: 12
      max_tokens: 4096
  - model_name: my models/local
    litellm_params: {model: hosted_vllm/Qwen/Qwen3-8B, api_base: "http://10.0.0.7:8000/v1", api_key: none}
    model_info: {mode: chat, max_input_tokens: 32768, supports_vision: true}
  - model_name: llama
    litellm_params: {model: ollama_chat/llama3.2, api_base: "http://127.0.0.1:11434", temperature: 0.2}
  - model_name: embed
    litellm_params: {model: text-embedding-3-small}
    model_info: {mode: embedding}
  - model_name: pool
    litellm_params: {model: openai_like/a, api_base: "http://10.0.0.8/v1"}
  - model_name: pool
    litellm_params: {model: openai_like/b, api_base: "http://10.0.0.9/v1"}
  - model_name: pool
    litellm_params: {model: openai_like/b, api_base: "http://10.0.0.10/v1"}
  - model_name: fast
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}
  - model_name: exact
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY, temperature: 0}
router_settings:
  routing_strategy: simple-shuffle
  model_group_alias: {gpt-4: gpt-4o, all: {model: pool, hidden: true}}
  fallbacks: [{smart: [gpt-4o, llama]}, {gpt-4o: [smart]}, {pool: [llama]}]
litellm_settings:
  drop_params: true
  callbacks: [langfuse]
general_settings:
  master_key: sk-master-marker-secret
  database_url: postgres://u:password-marker-secret@db/litellm
"""


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config.yaml"
    path.write_text(CONFIG)
    return path


def serves() -> dict[str, Serve]:
    return {serve.name: serve for serve in load(Path("stoker.toml"), needs_secrets=False).serves}


def report(capsys: Captured, file: Path) -> list[dict[str, Any]]:
    capsys.readouterr()
    run(["import", "litellm", str(file), "--check", "--json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["report"]
    return rows


def test_providers_become_external_serves_under_the_names_of_their_groups(file: Path) -> None:
    assert run(["import", "litellm", str(file)]) == 0
    found = serves()
    gpt = found["gpt-4o"]
    assert (gpt.base_url, gpt.aliases) == ("https://api.openai.com/v1", ("gpt-4", "fast"))
    assert gpt.key is not None
    assert gpt.key.source == "env:OPENAI_API_KEY"
    assert [variant.name for variant in gpt.variants] == ["exact"]
    smart = found["smart"]
    assert (smart.base_url, smart.served_name, smart.max_active) == (
        "https://api.anthropic.com/v1", "claude-sonnet-4-5", 12,
    )  # fmt: skip
    assert dict(smart.request.default) == {"max_tokens": 4096}
    local = found["local"]
    assert (local.served_name, local.aliases, local.key) == ("Qwen/Qwen3-8B", ("my models/local",), None)
    assert (local.context, local.modalities) == (32768, ("text", "image"))
    assert found["llama"].base_url == "http://127.0.0.1:11434/v1"
    assert [dialect.value for dialect in found["embed"].dialects] == ["embeddings"]
    assert run(["config", "check"]) in (0, 2)  # 2: the variable of a key is not set here


def test_secrets_move_to_files_of_their_own(file: Path, capsys: Captured) -> None:
    assert run(["import", "litellm", str(file)]) == 0
    assert "marker-secret" not in Path("stoker.toml").read_text()
    assert "marker-secret" not in capsys.readouterr().out
    assert Path("keys/smart").read_text() == "sk-ant-marker-secret\n"
    assert Path("keys/smart").stat().st_mode & 0o777 == 0o600
    door = tomllib.loads(Path("stoker.toml").read_text())["front_door"]
    assert door["port"] == 4000
    assert door["keys"] == [{"name": "master", "value": "file:keys/master", "scope": "admin"}]


def test_several_servers_of_one_name_are_tried_in_order_also_those_of_an_equal_model(
    file: Path, capsys: Captured
) -> None:
    rows = report(capsys, file)
    pool = [(row["outcome"], row["key"]) for row in rows if row["model"] == "pool" and row["outcome"] != "carried"]
    assert pool == [("changed", "model_name")]
    assert run(["import", "litellm", str(file)]) == 0
    document = tomllib.loads(Path("stoker.toml").read_text())
    table = {"serves": ["pool-1", "pool-2", "pool-3"], "pick": "first"}
    assert document["alias"] == {"pool": table, "all": table}
    assert {serve.base_url: serve.served_name for serve in serves().values() if serve.name in table["serves"]} == {
        "http://10.0.0.8/v1": "a", "http://10.0.0.9/v1": "b", "http://10.0.0.10/v1": "b",
    }  # fmt: skip


LOCAL = "model: openai/local, api_base: 'http://127.0.0.1:30000/v1', api_key: none"


def imported(home: Path, *entries: str, rest: str = "") -> dict[str, Any]:
    """The document that an import of these entries of `model_list` writes."""
    path = home / "config.yaml"
    path.write_text("model_list:\n" + "".join(f"  - {entry}\n" for entry in entries) + rest)
    assert run(["import", "litellm", str(path), "--force"]) == 0
    load(Path("stoker.toml"), needs_secrets=False)
    return tomllib.loads(Path("stoker.toml").read_text())


def test_one_model_at_two_providers_is_two_serves(home: Path) -> None:
    imported(
        home,
        "{model_name: fast, litellm_params: {model: groq/openai/gpt-oss-20b, api_key: os.environ/GROQ_API_KEY}}",
        "{model_name: cheap, litellm_params: {model: openrouter/openai/gpt-oss-20b, api_key: os.environ/OR_KEY}}",
    )
    found = serves()
    assert {name: serve.served_name for name, serve in found.items()} == {
        "fast": "openai/gpt-oss-20b",
        "cheap": "openai/gpt-oss-20b",
    }
    assert found["fast"].names() == ("fast",), "the vendor's name would mean two serves"


def test_presets_of_one_server_are_variants_of_one_serve_that_has_none_of_their_parameters(home: Path) -> None:
    document = imported(
        home,
        f"{{model_name: careful, litellm_params: {{{LOCAL}, temperature: 0.2, top_k: 5}}}}",
        f"{{model_name: lively, litellm_params: {{{LOCAL}, temperature: 1.0}}}}",
        rest="router_settings: {fallbacks: [{careful: [lively]}]}\n",
    )
    (serve,) = document["serve"]
    assert (serve["name"], serve["served_name"], serve.get("request")) == ("local", "local", None)
    assert [(one["name"], one["default"]) for one in serve["variant"]] == [
        ("careful", {"temperature": 0.2, "top_k": 5}),
        ("lively", {"temperature": 1.0}),
    ]


def test_a_plain_name_of_a_server_with_presets_is_its_serve(home: Path) -> None:
    (serve,) = imported(
        home,
        f"{{model_name: lively, litellm_params: {{{LOCAL}, temperature: 1.0}}}}",
        f"{{model_name: plain, litellm_params: {{{LOCAL}}}}}",
    )["serve"]
    assert (serve["name"], [one["name"] for one in serve["variant"]]) == ("plain", ["lively"])


def test_a_group_of_presets_and_servers_is_an_alias_of_them(home: Path) -> None:
    document = imported(
        home,
        f"{{model_name: pool, litellm_params: {{{LOCAL}, temperature: 0.2}}}}",
        "{model_name: pool, litellm_params: {model: ollama/b}}",
        f"{{model_name: pool, litellm_params: {{{LOCAL}, temperature: 0.9}}}}",
    )
    assert document["alias"] == {"pool": {"serves": ["pool-1", "pool-2", "pool-3"], "pick": "first"}}
    assert [serve["name"] for serve in document["serve"]] == ["local", "pool-2"]


@pytest.mark.parametrize(
    ("params", "dialects"),
    [
        (LOCAL, None),
        ("model: openai/gpt-4o", ["chat", "completions", "responses"]),
        ("model: openai/text-embedding-3-small, api_base: 'http://127.0.0.1:1/v1'", ["embeddings"]),
        ("model: text-embedding-3-large", ["embeddings"]),
        ("model: hosted_vllm/BAAI/bge-m3, api_base: 'http://127.0.0.1:1/v1'", ["embeddings"]),
        ("model: hosted_vllm/BAAI/bge-reranker-v2-m3, api_base: 'http://127.0.0.1:1/v1'", ["rerank"]),
        ("model: openai/whisper-1", ["transcription"]),
        ("model: openai/gpt-4o-mini-tts", ["speech"]),
        ("model: openai/dall-e-3", ["image"]),
    ],
)
def test_a_models_kind_follows_from_its_name_where_no_mode_says_it(
    home: Path, params: str, dialects: list[str] | None
) -> None:
    (serve,) = imported(home, f"{{model_name: m, litellm_params: {{{params}}}}}")["serve"]
    assert serve.get("dialects") == dialects


def test_a_mode_knows_better_than_the_name(home: Path) -> None:
    entry = f"{{model_name: e, litellm_params: {{{LOCAL.replace('local', 'bge-chat')}}}, model_info: {{mode: chat}}}}"
    (serve,) = imported(home, entry)["serve"]
    assert "dialects" not in serve


def test_addresses_and_names_may_be_in_variables(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("LOCAL_URL", "http://127.0.0.1:30000/v1")
    monkeypatch.setenv("NAME", "small")
    entry = "{model_name: os.environ/NAME, litellm_params: {model: openai/local, api_base: os.environ/LOCAL_URL}}"
    (serve,) = imported(home, entry)["serve"]
    assert (serve["name"], serve["base_url"]) == ("small", "http://127.0.0.1:30000/v1")
    monkeypatch.delenv("LOCAL_URL")
    assert run(["import", "litellm", str(home / "config.yaml"), "--force"]) == 2
    assert "the variable LOCAL_URL is not set" in capsys.readouterr().err


@pytest.mark.parametrize("provider", ["azure", "azure_ai"])
def test_azures_addresses_of_openais_api_are_carried(home: Path, provider: str) -> None:
    address = "https://x.openai.azure.com/openai/v1/"
    given = f"{{model: {provider}/my-deployment, api_base: {address}, api_key: os.environ/AZ, api_version: preview}}"
    document = imported(home, f"{{model_name: a, litellm_params: {given}}}")
    (serve,) = document["serve"]
    assert (serve["base_url"], serve["served_name"], serve["key"]) == (address.rstrip("/"), "my-deployment", "env:AZ")


def test_a_master_key_that_is_too_short_is_replaced(home: Path, capsys: Captured) -> None:
    general = "general_settings: {master_key: sk-1234}\n"
    document = imported(home, f"{{model_name: a, litellm_params: {{{LOCAL}}}}}", rest=general)
    assert document["front_door"]["keys"][0]["value"] == "file:keys/master"
    assert len(Path("keys/master").read_text().strip()) > 20
    rows = {row["key"]: row for row in report(capsys, home / "config.yaml")}
    assert rows["general_settings.master_key"]["outcome"] == "changed"
    assert load(Path("stoker.toml")).front_door.keys[0].name == "master"


def test_a_file_of_which_nothing_can_be_carried_writes_nothing(home: Path, capsys: Captured) -> None:
    path = home / "config.yaml"
    path.write_text("model_list:\n  - {model_name: a, litellm_params: {model: bedrock/x}}\n")
    assert run(["import", "litellm", str(path), "--partial"]) == 2
    assert "no model can be carried" in capsys.readouterr().err
    assert not Path("stoker.toml").exists()


def test_fallbacks_answer_also_for_failed_and_busy_servers_and_circles_are_cut(file: Path, capsys: Captured) -> None:
    fallbacks = {row["model"]: row for row in report(capsys, file) if row["key"] == "fallbacks"}
    assert fallbacks["smart"]["outcome"] == "changed"
    assert "would fall back to each other" in fallbacks["gpt-4o"]["note"]
    assert run(["import", "litellm", str(file)]) == 0
    found = serves()
    assert found["smart"].fallback == "gpt-4o"
    assert {word.value for word in found["smart"].fallback_on} == {"memory", "unavailable", "busy"}
    assert found["gpt-4o"].fallback is None
    assert (found["pool-1"].fallback, found["pool-2"].fallback) == ("llama", "llama")


def test_prices_per_token_become_tiers_with_prices_per_million(file: Path) -> None:
    assert run(["import", "litellm", str(file)]) == 0
    tiers = tomllib.loads(Path("stoker.toml").read_text())["tier"]
    assert tiers == [
        {"name": "gpt-4o", "serve": "gpt-4o", "cost": {"input": 2.5, "output": 10.0, "cached_input": 1.25}}
    ]


def test_everything_else_has_a_row(file: Path, capsys: Captured) -> None:
    rows = {(row["model"], row["key"]): row for row in report(capsys, file)}
    for key in ("router_settings.routing_strategy", "litellm_settings.drop_params", "litellm_settings.callbacks",
                "general_settings.database_url"):  # fmt: skip
        assert rows[None, key]["outcome"] == "dropped"
        assert rows[None, key]["note"]
    assert "stoker keys create" in rows[None, "general_settings.database_url"]["note"]
    assert rows["gpt-4o", "litellm_params.rpm"]["outcome"] == "dropped"
    assert rows["gpt-4o", "model_info.id"]["outcome"] == "dropped"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("{model: bedrock/x}", "Stoker does not speak the API of bedrock"),
        ("{model: azure/gpt-4o, api_base: https://x.openai.azure.com}", "does not end in /openai/v1"),
        ("{model: azure/gpt-4o}", "azure needs an api_base that ends in /openai/v1"),
        ("{model: openai/*}", "a wildcard stands for models"),
        ("{model: hosted_vllm/x}", "hosted_vllm needs an api_base"),
        ("{model: openai/x, api_base: http://h/other}", "does not end in /v1"),
        ("{model: openai/x, api_base: os.environ/BASE}", "the variable BASE is not set"),
        ("{model: mystery}", "'mystery' names no provider"),
        ("{}", "it has no litellm_params.model"),
    ],
)
def test_what_cannot_be_carried_is_named_and_the_rest_goes_on(
    home: Path, capsys: Captured, params: str, said: str
) -> None:
    path = home / "config.yaml"
    good = "  - {model_name: good, litellm_params: {model: ollama/good}}\n"
    path.write_text(f"model_list:\n  - model_name: odd\n    litellm_params: {params}\n{good}")
    assert run(["import", "litellm", str(path)]) == 1
    captured = capsys.readouterr()
    assert said in captured.out
    assert "could not be carried: odd" in captured.err
    assert not Path("stoker.toml").exists()
    assert run(["import", "litellm", str(path), "--partial"]) == 1
    assert list(serves()) == ["good"]


def test_a_variable_that_the_file_sets_itself_is_a_secret_of_the_file(home: Path) -> None:
    path = home / "config.yaml"
    path.write_text(
        "environment_variables: {MY_KEY: marker-secret-1}\nmodel_list:\n"
        "  - {model_name: m, litellm_params: {model: openai/m, api_key: os.environ/MY_KEY}}\n"
    )
    assert run(["import", "litellm", str(path)]) == 0
    assert Path("keys/MY_KEY").read_text() == "marker-secret-1\n"
    assert 'key = "file:keys/MY_KEY"' in Path("stoker.toml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {}", "there is no `model_list`: give the config.yaml of LiteLLM's proxy"),
        ("model_list: [", "not YAML"),
        ("[1, 2]", "there is no `model_list`"),
    ],
)
def test_another_tools_file_is_refused(home: Path, capsys: Captured, text: str, said: str) -> None:
    path = home / "config.yaml"
    path.write_text(text)
    assert run(["import", "litellm", str(path)]) == 2
    assert said in capsys.readouterr().err
