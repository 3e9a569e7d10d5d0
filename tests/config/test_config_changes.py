"""Every difference between two files is named by its place in the file, and no secret value is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config.changes import changed_settings, restart_problems
from stoker.config.load import load

FILE = """
[front_door]
keys = [{ name = "team", value = "file:team.key" }, { name = "ci", value = "file:ci.key" }]
[slots.gpu0]
[[serve]]
name = "fast"
engine = "openai"
cmd = ["engine", "{port}"]
key = "file:engine.key"
env = { HF_TOKEN = "hf_one", LEVEL = "1" }
slot = "gpu0"
[[serve]]
name = "clever"
engine = "openai"
cmd = ["engine", "{port}"]
[[tier]]
name = "local"
serve = "fast"
[alias.coder]
serve = "clever"
"""


def changes(directory: Path, text: str, **keys: str) -> list[str]:
    """What differs from FILE. `keys`: new contents of key files."""
    path = directory / "stoker.toml"
    found = []
    for content, files in ((FILE, {}), (text, keys)):
        path.write_text(content)
        for name in ("team", "ci", "engine"):
            (directory / f"{name}.key").write_text(files.get(name, name * 20))
            (directory / f"{name}.key").chmod(0o600)
        found.append(load(path))
    return changed_settings(*found)


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ("", "", []),
        ("# ", "# a comment ", []),
        ("[front_door]", '[front_door]\nallowed_hosts = ["gpu.example"]', ["front_door.allowed_hosts"]),
        ("[front_door]", "[front_door]\nport = 9000", ["front_door.port"]),
        ('"LEVEL = "1"', "", []),
        ('LEVEL = "1"', 'LEVEL = "2"', ["serve[fast].env.LEVEL"]),
        ("hf_one", "hf_two", ["serve[fast].env.HF_TOKEN"]),
        ('name = "clever"', 'name = "clever"\ncontext = 4096', ["serve[clever].context"]),
        ('name = "clever"', 'name = "clever"\nrequest.set.top_k = 4', ["serve[clever].request"]),
        ("[[tier]]", '[[serve.variant]]\nname = "x:y"\n[[tier]]', ["serve[clever].variant[x:y]"]),
        ("[slots.gpu0]", '[slots.gpu0]\ndevices = ["0"]', ["slots.gpu0.devices"]),
        ("[[tier]]", "[router]\nallow_cloud = false\n[[tier]]", ["router.allow_cloud"]),
        ('[alias.coder]\nserve = "clever"', '[alias.coder]\nserve = "fast"', ["alias.coder.serve"]),
        ("[slots.gpu0]", "[watchdog]\ninterval = \"5s\"\n[slots.gpu0]", ["watchdog.interval"]),
        ("[slots.gpu0]", "[responses]\nstore = true\n[slots.gpu0]", ["responses.store"]),
        ('{ name = "ci", value = "file:ci.key" }', "", ["front_door.keys[ci]"]),
        ('"file:ci.key" }', '"file:ci.key", scope = "admin" }', ["front_door.keys[ci].scope"]),
    ],
)  # fmt: skip
def test_what_differs_is_named(tmp_path: Path, before: str, after: str, paths: list[str]) -> None:
    assert changes(tmp_path, FILE.replace(before, after, 1) if before else FILE) == paths


def test_a_secret_with_another_value_is_named_without_its_value(tmp_path: Path) -> None:
    assert changes(tmp_path, FILE, ci="x" * 40) == ["front_door.keys[ci].value"]
    assert changes(tmp_path, FILE, engine="x" * 40) == ["serve[fast].key"]


def test_a_restart_is_asked_for_with_the_command_to_type() -> None:
    assert restart_problems(["front_door.allowed_hosts", "serve[paths].port"]) == []
    first, second = restart_problems(["paths.logs", "front_door.tls.cert"])
    assert first == "paths.logs takes effect only with a restart: stop Stoker and start it again"
    assert second.startswith("front_door.tls.cert takes effect only with a restart: type `stoker up --replace`")
