"""The commands that test_guides.py runs, in this order, and a word of what each has to print."""

from __future__ import annotations

from typing import NamedTuple

CHAT = "curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' -d "
ASK = '\'{{"model": "{0}", "messages": [{{"role": "user", "content": "Who are you?"}}]}}\''
HI = '\'{"model": "ember", "messages": [{"role": "user", "content": "hi"}]}\''


class Step(NamedTuple):
    """One command as the pages show it.

    prints: has to be in its output. replaced: placeholders, by what stands for them. ends: it runs until it is
    interrupted, once it printed that.
    """

    text: str
    prints: str = ""
    replaced: tuple[str, str] = ("", "")
    ends: bool = False


BEFORE = [
    Step("stoker --version", "stoker "),
    Step("mkdir -p ~/stoker"),
    Step("mkdir -p ~/models"),
    Step("cp src/stoker/models/spark.gguf ~/models/my-model.gguf"),
    Step("cd ~/stoker"),
    Step("stoker init --yes", "next: stoker up"),
    Step("stoker config check", "no problems"),
    Step("stoker doctor", "no problems; next: stoker up"),
]
"""Without a running Stoker."""

WITH_STOKER = [
    Step("stoker up", "listening on"),
    Step("curl http://127.0.0.1:8000/v1/models", '"my-model"'),
    Step(CHAT + ASK.format("my-model"), '"content"'),
    Step(CHAT + ASK.format("spark"), '"content"'),
    Step(CHAT + ASK.format("fast"), '"content"'),
    Step(CHAT + HI, '"content"'),
    Step(
        "curl http://127.0.0.1:8000/api/chat -d "
        '\'{"model": "spark", "messages": [{"role": "user", "content": "hi"}], "stream": false}\'',
        '"done":true',
    ),
    Step("curl -N 'http://127.0.0.1:8000/events?topics=status,decisions'", "event: snapshot", ends=True),
    Step("stoker client", "claude-code"),
    Step("stoker client claude-code", "ANTHROPIC_BASE_URL"),
    Step("stoker client openai-python", "base_url"),
    Step("stoker launch", "opencode"),
    Step('eval "$(stoker client env)"'),
    Step("export OPENAI_BASE_URL=http://127.0.0.1:8000/v1   OPENAI_API_KEY=none"),
    Step("export ANTHROPIC_BASE_URL=http://127.0.0.1:8000   ANTHROPIC_API_KEY=none"),
    Step('export PATH="$PATH:$HOME/vllm/bin"'),
    Step("stoker serves up qwen --dry-run", "would ask"),
    Step("stoker serves up fast", "fast is ready"),
    Step("stoker slot switch big --dry-run", "would ask"),
    Step("stoker slot switch big", "big is ready"),
    Step("stoker serves status", "big"),
    Step("stoker top", "big"),
    Step("stoker decisions --follow", "served", ends=True),
    Step("stoker explain REQUEST_ID", "served", replaced=("REQUEST_ID", "{request}")),
    Step("stoker watchdog --once || notify-me", "nothing is wrong"),
    Step("stoker fit ./llama-8b-q4.gguf --context 65536 --device-memory 12GiB", "VERDICT"),
    Step("stoker usage"),
    Step("openssl rand -hex 32 > admin.key && chmod 600 admin.key"),
    Step("openssl rand -hex 32 > private.key && chmod 600 private.key"),
    Step("export STOKER_KEY=$(openssl rand -hex 32) && echo $STOKER_KEY"),
    Step('(umask 077; echo "STOKER_KEY=sk-$(openssl rand -hex 32)" > .env)'),
    Step("stoker keys create alice --priority interactive", "key 'alice' works now"),
    Step("stoker keys create nightly --app agents --requests-per-minute 60 --expires 90d", "key 'nightly' works now"),
    Step("stoker keys create me --scope admin", "key 'me' works now"),
    Step("stoker keys list", "nightly"),
    Step('stoker keys set nightly --context 1024 --reason "out of memory at night"', "stoker keys reset nightly"),
    Step("stoker keys show nightly", "1024"),
]
"""With the one that `stoker init` wrote the file of, and scripted serves for the names that other pages use."""

STEPS = [*BEFORE, *WITH_STOKER]
