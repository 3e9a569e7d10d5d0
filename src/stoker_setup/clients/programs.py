"""SDKs, `llm`, curl, and the environment names that programs read."""

from __future__ import annotations

from stoker.domain.dialect import Dialect
from stoker_setup.clients.client_types import BlockFormat, Client, SettingsBlock

OPENAI_PYTHON = Client(
    "openai-python", "openai, for Python", "OpenAI(base_url=...)", Dialect.CHAT,
    is_coding=False,
    blocks=(
        SettingsBlock(BlockFormat.SHELL, ""),
        SettingsBlock(BlockFormat.PYTHON, """
import os

from openai import OpenAI

client = OpenAI(base_url=<base_url>, api_key=os.environ["<key>"])
reply = client.chat.completions.create(
    model=<model>,
    max_tokens=<max_output>,
    temperature=<temperature>,
    messages=[{"role": "user", "content": "Say hello."}],
)
print(reply.choices[0].message.content)
""", "hello.py"),
    ),
)  # fmt: skip

ANTHROPIC_PYTHON = Client(
    "anthropic-python", "anthropic, for Python", "Anthropic(base_url=...)", Dialect.MESSAGES,
    at_root=True, is_coding=False,
    blocks=(
        SettingsBlock(BlockFormat.SHELL, ""),
        SettingsBlock(BlockFormat.PYTHON, """
import os

from anthropic import Anthropic

client = Anthropic(base_url=<root>, api_key=os.environ["<key>"])
with client.messages.stream(
    model=<model>,
    max_tokens=<max_output>,
    temperature=<temperature>,
    messages=[{"role": "user", "content": "Say hello."}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
""", "hello.py"),
    ),
)  # fmt: skip

LLM = Client(
    "llm", "llm", "extra-openai-models.yaml", Dialect.CHAT,
    tried="0.36", is_coding=False,
    blocks=(
        SettingsBlock(BlockFormat.YAML, """
- model_id: <stoker_model>
  model_name: <model>
  api_base: <base_url>
  api_key_name: stoker
  supports_tools: true
  supports_schema: true
  vision: <images>
""", '~/.config/io.datasette.llm/extra-openai-models.yaml (beside what `llm logs path` prints)'),
        SettingsBlock(BlockFormat.SHELL, """
llm keys set stoker --value "$<key>"
llm models options set <stoker_model> max_tokens <max_output>
llm models options set <stoker_model> temperature <temperature>
llm -m <stoker_model> 'Say hello.'
"""),
    ),
)  # fmt: skip

CURL = Client(
    "curl", "curl", "HTTP", Dialect.CHAT,
    is_coding=False,
    blocks=(
        SettingsBlock(BlockFormat.SHELL, """
curl <chat_url> \\
  -H "Authorization: Bearer $<key>" \\
  -H 'Content-Type: application/json' \\
  -d <chat_body>
"""),
    ),
)  # fmt: skip

ENV = Client(
    "env", "Environment names", "environment", Dialect.CHAT,
    is_coding=False,
    blocks=(
        SettingsBlock(BlockFormat.SHELL, """
export OPENAI_BASE_URL=<base_url>
export OPENAI_API_KEY="$<key>"
export ANTHROPIC_BASE_URL=<root>
export ANTHROPIC_API_KEY="$<key>"
export OLLAMA_HOST=<root>
export LLM_MODEL=<model>
# Older names:
export LLM_BASE_URL=<base_url>
export SGLANG_BASE_URL=<base_url>
export SGLANG_CHAT_URL=<chat_url>
export SGLANG_MODELS_URL=<models_url>
export SGLANG_MODEL=<model>
export SGLANG_API_TOKEN="$<key>"
""", 'or: eval "$(stoker client env)"'),
    ),
)  # fmt: skip

PROGRAMS = (OPENAI_PYTHON, ANTHROPIC_PYTHON, LLM, CURL, ENV)
