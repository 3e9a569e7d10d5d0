"""How each peer is started, with as little of its own as it allows: one worker, no access log, keep-alive upstream."""

from __future__ import annotations

import grp
import importlib.util
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.exchange import MODEL

ALIAS = "bench"
"""What clients ask Stoker and LiteLLM for; the upstream's own name is another, so the name has to be rewritten."""


BEFORE = "before"
"""Another Stoker; not measured unless it is named."""


class Site(NamedTuple):
    """What a gateway is given: a folder of its own, its port, the upstream's, the caller's key, and where peers are."""

    folder: Path
    port: int
    upstream: int
    key: str
    peers: Mapping[str, str]
    """Gateway name -> its program, where it is not to be found beside this Python or on PATH."""


class Launch(NamedTuple):
    """How to start one. `exact`: its streams are the upstream's bytes; else only the counters are checked."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    model: str = MODEL
    exact: bool = True
    patience: float = 20.0
    """Seconds it may take until it answers."""


class Missing(NamedTuple):
    """Why there is none."""

    reason: str


_NGINX = """\
worker_processes 1;
worker_rlimit_nofile {files};
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 4096; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""

_STOKER = """\
[front_door]
host = "127.0.0.1"
port = {port}
keys = [{{ name = "bench", value = "env:STOKER_BENCH_KEY", scope = "inference" }}]

[paths]
state = "{folder}/state"
logs = "{folder}/logs"

[[serve]]
name = "{alias}"
engine = "openai"
driver = "external"
base_url = "http://127.0.0.1:{upstream}/v1"
served_name = "{model}"
parallel = 4096
max_active = 4096
queue = 4096
"""

_LITELLM = """\
model_list:
  - model_name: {alias}
    litellm_params:
      model: openai/{model}
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: none
general_settings:
  master_key: os.environ/BENCH_KEY
"""


def _program(site: Site, gateway: str, name: str) -> str | None:
    """Where a program is: told by the user, beside this Python, on PATH."""
    told = site.peers.get(gateway)
    beside = Path(sys.executable).with_name(name)
    return told or (str(beside) if beside.exists() else shutil.which(name))


def _nginx(site: Site) -> Launch | Missing:
    program = _program(site, "nginx", "nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        return Missing("not installed (Debian: apt-get install nginx-light)")
    files = os.sysconf("SC_OPEN_MAX")
    owner = f"user {pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name};"
    text = _NGINX.format(
        folder=site.folder,
        port=site.port,
        upstream=site.upstream,
        files=files,
        connections=min(files, 16384),
        user=owner if os.geteuid() == 0 else "",  # a worker that drops root could not read its own folder
    )
    config = site.folder / "nginx.conf"
    config.write_text(text)
    return Launch(
        (program, "-p", str(site.folder), "-e", str(site.folder / "error.log"), "-c", str(config)), os.environ
    )


def _stoker(site: Site) -> Launch | Missing:
    program = _program(site, "stoker", "stoker")
    if program is None:
        return Missing("no `stoker` command beside this Python (pip install -e .)")
    return _stoker_of(program, site)


def _before(site: Site) -> Launch | Missing:
    """The `stoker` of another checkout, so that what a change costs is seen in one run."""
    program = site.peers.get(BEFORE)
    return (
        Missing("say where: --before /another/checkout/.venv/bin/stoker") if not program else _stoker_of(program, site)
    )


def _stoker_of(program: str, site: Site) -> Launch:
    config = site.folder / "stoker.toml"
    config.write_text(
        _STOKER.format(folder=site.folder, port=site.port, upstream=site.upstream, alias=ALIAS, model=MODEL)
    )
    return Launch((program, "up", "--config", str(config)), {**os.environ, "STOKER_BENCH_KEY": site.key}, ALIAS)


def _sglang(site: Site) -> Launch | Missing:
    python = site.peers.get("sglang")
    if python is None and importlib.util.find_spec("sglang_router") is None:
        return Missing("not installed (pip install sglang-router, or --sglang PYTHON of another environment)")
    worker = f"http://127.0.0.1:{site.upstream}"
    argv = (python or sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1")
    options = ("--port", str(site.port), "--worker-urls", worker, "--policy", "round_robin", "--log-level", "error")
    # its streams pass unchanged; it has Prometheus metrics on a port of its own
    return Launch((*argv, *options, "--prometheus-port", str(site.port + 1)), os.environ)


def _litellm(site: Site) -> Launch | Missing:
    program = _program(site, "litellm", "litellm")
    if program is None:
        return Missing("not installed (pip install 'litellm[proxy]', or --litellm PROGRAM of another environment)")
    config = site.folder / "litellm.yaml"
    config.write_text(_LITELLM.format(alias=ALIAS, model=MODEL, upstream=site.upstream))
    argv = (program, "--config", str(config), "--host", "127.0.0.1", "--port", str(site.port), "--num_workers", "1")
    env = {**os.environ, "BENCH_KEY": site.key, "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
    return Launch(argv, env, ALIAS, exact=False, patience=90.0)


GATEWAYS: Mapping[str, Callable[[Site], Launch | Missing]] = {
    "nginx": _nginx,
    "stoker": _stoker,
    BEFORE: _before,
    "sglang": _sglang,
    "litellm": _litellm,
}
"""All but `direct`, which is no process."""
