"""A home of its own for every test, a small configuration, and a Stoker to talk to."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker
from tests.fleet.memory.model_files import gguf

CONFIG = """
[front_door]
port = {port}

[paths]
state = "state"

[slots.gpu0]
baseline = "slow"

[[serve]]
name = "fast"
model = "fast.gguf"
slot = "gpu0"
aliases = ["gpt-x"]

[[serve]]
name = "slow"
model = "slow.gguf"
slot = "gpu0"

[[serve]]
name = "odd"
engine = "openai"
model = "some/model"
cmd = "sh -c true {{model}} --port {{port}} --token={{key}} --password hunter2"
slot = "gpu0"
status = "rejected-wrong answers"
env = {{ MODE = "a b", SERVICE_TOKEN = "marker-secret" }}
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing of the real user is read or written; the working directory is empty.

    Not under tmp_path: a socket's path may have 100 bytes, and pytest's own are long.
    """
    home = Path(tempfile.mkdtemp(prefix="cli-", dir="/tmp"))
    (home / "work").mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "STOKER_CONFIG", "HF_HOME", "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "FORCE_COLOR", "NO_COLOR",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "work")
    yield home
    monkeypatch.chdir("/")
    shutil.rmtree(home)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def config(home: Path, port: int) -> Path:
    """./stoker.toml with two serves in one slot, and a rejected one."""
    (home / "work" / "state").mkdir(mode=0o700)
    path = home / "work" / "stoker.toml"
    path.write_text(CONFIG.format(port=port))
    for name in ("fast", "slow"):
        facts = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 131072}
        gguf(home / "work" / f"{name}.gguf", facts, [("x", (32,), 0, 0)], 128)
    return path


@pytest.fixture
def stoker(config: Path) -> Iterator[FakeStoker]:
    """A Stoker that runs on the configuration: fast is ready, slow is stopped."""
    fake = FakeStoker(config.parent / "state" / "stoker.sock")
    yield fake
    fake.close()
