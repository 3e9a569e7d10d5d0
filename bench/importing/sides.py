"""One configuration file, run by llama-swap and by Stoker, with the recorder in place of every engine."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import importing
from bench.processes import Child, free_port
from bench.up import Up, program

PROGRAMS = (
    "llama-server",
    "vllm",
    "sglang",
    "docker",
    "podman",
    "whisper-server",
    "sd-server",
    "serve-model",
    "ollama",
)
PATIENCE = 60.0
"""Seconds for a first answer of a model."""


@dataclass
class Side:
    """What one program did with a file."""

    problem: str = ""
    """Why it could not be run at all."""
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the name that was asked for: how the engine was started."""
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the name that was asked for: the body that the engine received."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By the name that was asked for: status and message, if there was no answer."""
    loaded: dict[str, frozenset[str]] = field(default_factory=dict)
    """By the name that was asked for: the models that were loaded then."""


def variables_of(text: str) -> dict[str, str]:
    """Environment variables that the file needs, from its comments `# env: NAME=VALUE`."""
    return dict(re.findall(r"^# env: ([A-Za-z_]\w*)=(.*)$", text, re.MULTILINE))


def make_path(folder: Path) -> Path:
    """A directory for PATH with the recorder under every engine's name."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(importing.__file__).with_name("recorder.py")
    script = folder / "recorder"
    script.write_text(f"#!{sys.executable}\n{source.read_text()}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for name in PROGRAMS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(script.name)
    return folder


class Recording:
    """The recorder's file, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []


def environment_of(file: Path, folder: Path, names: Sequence[str]) -> dict[str, str]:
    return {
        **variables_of(file.read_text()),
        "PATH": f"{make_path(folder / 'bin')}:{os.environ['PATH']}",
        "LLAMA_RECORD_FILE": str(folder / "record.jsonl"),
        "XDG_STATE_HOME": str(folder / "state"),
        "LLAMA_RECORD_MODELS": json.dumps(list(names)),
    }


def ask_all(
    side: Side, base: str, names: Sequence[str], kinds: Mapping[str, str], recording: Recording, key: str
) -> None:
    """Ask for each model once, in order, and note what its engine was started with and received."""
    for name in names:
        started = len(recording.rows())
        try:
            _ask(base, name, kinds.get(name, "chat"), key)
        except urllib.error.HTTPError as error:
            side.refusals[name] = f"{error.code} {error.read().decode(errors='replace')[:300]}"
            continue
        except OSError as error:
            side.refusals[name] = str(error)
            continue
        rows = recording.rows()
        path = _path(kinds.get(name, "chat"))  # Stoker asks an engine that it has just loaded questions of its own
        requests = [row for row in rows[started:] if row["kind"] == "request" and row["path"].endswith(path)]
        if requests:
            side.bodies[name] = requests[-1]["body"]
            starts = [row for row in rows if row["kind"] == "start" and row["pid"] == requests[-1]["pid"]]
            side.starts[name] = starts[-1]
            side.loaded[name] = _loaded(base, key)


def _loaded(base: str, key: str) -> frozenset[str]:
    """Both programs have llama-swap's path."""
    request = urllib.request.Request(f"{base}/running", headers={"authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=5) as reply:
        return frozenset(row["model"] for row in json.load(reply)["running"] if row["state"] != "stopping")


_QUESTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "chat": ("chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
    "completions": ("completions", {"prompt": "hi", "max_tokens": 5}),
    "embeddings": ("embeddings", {"input": "hi"}),
    "rerank": ("rerank", {"query": "hi", "documents": ["hi"]}),
    "speech": ("audio/speech", {"input": "hi", "voice": "a"}),
    "image": ("images/generations", {"prompt": "hi"}),
}
"""By what a model answers: the path below /v1, and the body."""
_FORM = "".join(
    f'--x\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n{value}\r\n'
    for name, file, value in (("model", "", "{model}"), ("file", '; filename="a.wav"', "RIFF"))
) + "--x--\r\n"  # fmt: skip
"""A transcription."""


def _path(kind: str) -> str:
    return "audio/transcriptions" if kind == "transcription" else _QUESTIONS[kind][0]


def _ask(base: str, name: str, kind: str, key: str) -> None:
    path = _path(kind)
    if kind == "transcription":
        content, data = "multipart/form-data; boundary=x", _FORM.replace("{model}", name)
    else:
        question = _QUESTIONS[kind][1]
        content, data = "application/json", json.dumps({"model": name, "temperature": 0.123, **question})
    headers = {"content-type": content, "authorization": f"Bearer {key}"}
    for tries_left in (True, False):
        request = urllib.request.Request(f"{base}/v1/{path}", data.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                reply.read()
            return
        except urllib.error.HTTPError as error:
            if error.code != 502 or not tries_left:
                raise
        time.sleep(2)  # with `checkEndpoint: none` llama-swap does not wait for an engine


def import_file(file: Path, folder: Path, cwd: Path) -> tuple[str, dict[str, Any]]:
    """`stoker import llama-swap` into `folder`. Why it failed, or "", and its report."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [str(program()), "import", "llama-swap", str(file), "--path", str(folder / "imported.toml")]
    done = subprocess.run(
        [*argv, "--cwd", str(cwd), "--json", "--force"], env={**os.environ, **environment_of(file, folder, ())},
        cwd=cwd, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    report = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return ("" if done.returncode == 0 else done.stderr[-800:] or f"exit code {done.returncode}"), report


def imported_names(folder: Path) -> list[str]:
    """Every name that the imported configuration answers to."""
    document = tomllib.loads((folder / "imported.toml").read_text())
    found = list(document.get("alias", {}))
    for serve in document.get("serve", ()):
        found += [serve.get("served_name", serve["name"]), *serve.get("aliases", ())]
        found += [variant["name"] for variant in serve.get("variant", ())]
    return found


def imported_serves(folder: Path) -> dict[str, str]:
    """By each name of a model: its serve."""
    found: dict[str, str] = {}
    for serve in tomllib.loads((folder / "imported.toml").read_text()).get("serve", ()):
        names = [serve["name"], *serve.get("aliases", ()), *(variant["name"] for variant in serve.get("variant", ()))]
        found |= dict.fromkeys(names, serve["name"])
    return found


def imported_kinds(folder: Path) -> dict[str, str]:
    """By each name of a model that is not for conversation: what it answers."""
    found: dict[str, str] = {}
    for serve in tomllib.loads((folder / "imported.toml").read_text()).get("serve", ()):
        dialects = serve.get("dialects", ["chat"])
        if "chat" not in dialects:
            names = [serve["name"], serve.get("served_name", ""), *serve.get("aliases", ())]
            names += [variant["name"] for variant in serve.get("variant", ())]
            found |= dict.fromkeys(names, dialects[0])
    return found


def run_llama_swap(
    binary: Path, file: Path, folder: Path, names: Sequence[str], kinds: Mapping[str, str], key: str, cwd: Path
) -> Side:
    """llama-swap itself on `file`, started in `cwd`, asked for each of `names` and for what it lists itself.

    `kinds`: by name, what the model answers if it is not for conversation.
    """
    side, port = Side(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **environment_of(file, folder, names)}
    argv = ("env", "-C", str(cwd), str(binary), "-config", str(file), "-listen", f"127.0.0.1:{port}")
    child = Child.start("llama-swap", argv, folder / "output.log", environment)
    try:
        base = f"http://127.0.0.1:{port}"
        listed = _listed(base, key)
        if listed is None:
            side.problem = (folder / "output.log").read_text()[-800:]
        else:
            ask_all(side, base, list(dict.fromkeys([*names, *listed])), kinds, Recording(folder / "record.jsonl"), key)
    finally:
        child.end(grace=20)
    return side


def run_stoker(file: Path, folder: Path, names: Sequence[str], kinds: Mapping[str, str], key: str) -> Side:
    """`stoker up` on what `import_file` wrote into `folder`, asked for each of `names`."""
    side, port = Side(), free_port()
    text = _on_port((folder / "imported.toml").read_text(), port)
    try:
        with Up(folder, text, port, environment_of(file, folder, names)):
            ask_all(side, f"http://127.0.0.1:{port}", names, kinds, Recording(folder / "record.jsonl"), key)
    except RuntimeError as error:
        side.problem = str(error)
    return side


def _on_port(text: str, port: int) -> str:
    """The configuration, on a free port."""
    if re.search(r"^port = ", text, re.MULTILINE) and "[front_door]" in text:
        head, door, rest = text.partition("[front_door]")
        return head + door + re.sub(r"^port = \d+", f"port = {port}", rest, count=1, flags=re.MULTILINE)
    if "[front_door]" in text:
        return text.replace("[front_door]", f"[front_door]\nport = {port}", 1)
    return f"{text}\n[front_door]\nport = {port}\n"


def _listed(base: str, key: str) -> list[str] | None:
    """The models that a server lists; None if it does not answer within ten seconds."""
    request = urllib.request.Request(f"{base}/v1/models", headers={"authorization": f"Bearer {key}"})
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(request, timeout=1) as reply:
                return [row["id"] for row in json.load(reply)["data"]]
        except OSError:
            time.sleep(0.05)
    return None
