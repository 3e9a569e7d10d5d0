"""The clients: settings, command and tools of each, as they were on the wire with the versions in bench/agents.md."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from bench.agents import task
from bench.agents.clients import Client, Setup
from bench.agents.more_clients import MORE_CLIENTS
from bench.agents.session_paths import MODEL, SessionPaths
from bench.agents.task import ASKED, NEW, OLD, Answers, Call, Tools
from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.calls import short_name

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _answers(paths: SessionPaths, dialect: Dialect, tools: Tools, before: int = 0) -> Answers:
    return task.answers(tools, paths.work, before, dialect is RESPONSES)


def _named(tool: str, path: str, *, old: str = "old_string", new: str = "new_string") -> Any:
    """An edit tool with three arguments."""

    def call(file: Path) -> Call:
        return tool, {path: str(file), old: OLD, new: NEW}

    return call


def _command(tool: str, name: str = "command") -> Any:
    def call(line: str) -> Call:
        return tool, {name: line}

    return call


# -- Claude Code ----------------------------------------------------------------------------------------------


def _claude_code(paths: SessionPaths) -> Setup:
    variables = {
        "ANTHROPIC_BASE_URL": paths.root,
        "ANTHROPIC_AUTH_TOKEN": paths.key,
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Setup(("-p", ASKED, "--allowedTools", "Read,Edit,Bash"), variables, {})


_CLAUDE_TOOLS = Tools(
    lambda file: ("Read", {"file_path": str(file)}),
    _named("Edit", "file_path"),
    lambda line: ("Bash", {"command": line, "description": "Run it"}),
)

# -- Codex ----------------------------------------------------------------------------------------------------

_CODEX = """\
model = "{model}"
model_provider = "stoker"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stoker]
name = "Stoker"
base_url = "{base_url}"
env_key = "STOKER_KEY"
wire_api = "responses"
"""


def _codex(paths: SessionPaths, model: str) -> Setup:
    files = {paths.home / ".codex" / "config.toml": _CODEX.format(model=model, base_url=paths.base_url)}
    return Setup(
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ASKED),
        {},
        files,
    )


def _codex_tools(edit: Call) -> Tools:
    return Tools(
        lambda file: ("exec_command", {"cmd": f"cat {file.name}"}), lambda file: edit, _command("exec_command", "cmd")
    )


_BY_SHELL = ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{task.PATCH}EOF"})
_BY_PATCH = ("apply_patch", {"input": task.PATCH})


def _codex_answers(paths: SessionPaths, dialect: Dialect) -> Answers:
    return task.answers(_codex_tools(_BY_SHELL), paths.work, sealed=dialect is RESPONSES)


def _codex_gpt_answers(paths: SessionPaths, dialect: Dialect) -> Answers:
    """Under an OpenAI model's name it offers `apply_patch` as a tool without a schema, which others see as a function;
    the scripted server has functions alone, so that in Responses the patch goes by the shell."""
    return task.answers(
        _codex_tools(_BY_SHELL if dialect is RESPONSES else _BY_PATCH), paths.work, sealed=dialect is RESPONSES
    )


def _codex_code_answers(paths: SessionPaths, dialect: Dialect) -> Answers:
    """Under the newest models' names its one tool is JavaScript, and the tools are functions in there."""
    tools = Tools(
        lambda file: (_EXEC, {"input": _script("exec_command", {"cmd": f"cat {file.name}"})}),
        lambda file: (_EXEC, {"input": f"text(await tools.apply_patch({json.dumps(task.PATCH)}));"}),
        lambda line: (_EXEC, {"input": _script("exec_command", {"cmd": line})}),
    )
    return task.answers(tools, paths.work)


_EXEC = short_name("functions.exec", 64)
"""As the serve sees it: without namespaces, and in letters that each dialect takes."""


def _script(tool: str, arguments: dict[str, str]) -> str:
    return f"text(JSON.stringify(await tools.{tool}({json.dumps(arguments)})));"


# -- opencode -------------------------------------------------------------------------------------------------


def _opencode(paths: SessionPaths, npm: str) -> Setup:
    model = {"name": MODEL, "limit": {"context": 100_000, "output": 8000}, "tool_call": True}
    provider = {
        "npm": npm,
        "name": "Stoker",
        "options": {"baseURL": paths.base_url, "apiKey": "{env:STOKER_KEY}"},
        "models": {MODEL: model},
    }
    config = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "model": f"stoker/{MODEL}",
        "small_model": f"stoker/{MODEL}",
        "provider": {"stoker": provider},
    }
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return Setup(("run", ASKED), variables, {paths.work / "opencode.json": _json(config)})


_OPENCODE_TOOLS = Tools(
    lambda file: ("read", {"filePath": str(file)}),
    _named("edit", "filePath", old="oldString", new="newString"),
    lambda line: ("bash", {"command": line, "description": "Run it"}),
)

_SDKS = (
    ("opencode", CHAT, "@ai-sdk/openai-compatible"),
    ("opencode-anthropic", MESSAGES, "@ai-sdk/anthropic"),
    ("opencode-openai", RESPONSES, "@ai-sdk/openai"),
)
"""The SDKs by which it can be told to ask."""

# -- aider ----------------------------------------------------------------------------------------------------


def _aider(paths: SessionPaths) -> Setup:
    """`--auto-test` is the tool: what the test prints goes to the model. `-B`: two edits within a second and of one
    length look alike to Python's cache of compiled files."""
    arguments = (
        "--model", f"openai/{MODEL}", "--edit-format", "diff", "--auto-test", "--test-cmd", "python3 -B check.py",
        "--message", ASKED, "--yes-always", "--no-git", "--no-pretty", "--no-check-update", "--analytics-disable",
        "--no-show-model-warnings", "--no-show-release-notes", "--no-suggest-shell-commands", "--no-detect-urls",
        "--no-auto-lint", "--map-tokens", "0", task.FILE,
    )  # fmt: skip
    variables = {
        "OPENAI_API_BASE": paths.base_url,
        "OPENAI_API_KEY": paths.key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    about = {"max_input_tokens": 100_000, "max_output_tokens": 8000, "litellm_provider": "openai", "mode": "chat"}
    return Setup(arguments, variables, {paths.work / ".aider.model.metadata.json": _json({f"openai/{MODEL}": about})})


# -- llm ------------------------------------------------------------------------------------------------------

_LLM_MODEL = """\
- model_id: {model}
  model_name: {model}
  api_base: {base_url}
  api_key_name: stoker
  supports_tools: true
"""
_LLM_TOOLS = """\
import subprocess

def read_file(path: str) -> str:
    "The text of a file"
    return open(path).read()

def replace(path: str, old: str, new: str) -> str:
    "Put one text for another in a file"
    text = open(path).read()
    open(path, "w").write(text.replace(old, new))
    return "replaced"

def shell(command: str) -> str:
    "Run a command"
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
"""


def _llm(paths: SessionPaths, *arguments: str) -> Setup:
    folder = paths.home / ".config" / "io.datasette.llm"
    files = {
        folder / "extra-openai-models.yaml": _LLM_MODEL.format(model=MODEL, base_url=paths.base_url),
        folder / "keys.json": _json({"stoker": paths.key}),
    }
    return Setup(("-m", MODEL, *arguments), {"LLM_USER_PATH": str(folder)}, files)


def _llm_with_tools(paths: SessionPaths) -> Setup:
    tools = paths.home / "tools.py"
    plain = _llm(paths, "--functions", str(tools), "--td", ASKED)
    return plain._replace(files={**plain.files, tools: _LLM_TOOLS})


_LLM_NAMES = Tools(
    lambda file: ("read_file", {"path": str(file)}), _named("replace", "path", old="old", new="new"), _command("shell")
)

# -- the others -----------------------------------------------------------------------------------------------


def _cline(paths: SessionPaths) -> Setup:
    settings = {"provider": "openai-compatible", "apiKey": paths.key, "model": MODEL, "baseUrl": paths.base_url}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    document = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": entry},
    }
    file = paths.home / ".cline" / "data" / "settings" / "providers.json"
    arguments = ("-P", "openai-compatible", "-m", MODEL, "--auto-approve", "true", "-t", "90", ASKED)
    return Setup(arguments, {"CLINE_SESSION_BACKEND_MODE": "local"}, {file: _json(document)})


_CLINE_TOOLS = Tools(
    lambda file: ("read_files", {"files": [{"path": str(file)}]}),
    _named("editor", "path", old="old_text", new="new_text"),
    lambda line: ("run_commands", {"commands": [line]}),
)

_CONTINUE = """\
name: stoker
version: 1.0.0
schema: v1
models:
  - name: {model}
    provider: openai
    model: {model}
    apiBase: {base_url}
    apiKey: {key}
    roles: [chat, edit, apply]
    capabilities: [tool_use]
"""


def _continue(paths: SessionPaths) -> Setup:
    file = paths.home / ".continue" / "config.yaml"
    text = _CONTINUE.format(model=MODEL, base_url=paths.base_url, key=paths.key)
    return Setup(("--config", str(file), "--auto", "-p", ASKED), {"CONTINUE_TELEMETRY_ENABLED": "0"}, {file: text})


_CONTINUE_TOOLS = Tools(lambda file: ("Read", {"filepath": str(file)}), _named("Edit", "file_path"), _command("Bash"))


def _qwen(paths: SessionPaths) -> Setup:
    arguments = (
        "--auth-type", "openai", "--openai-api-key", paths.key, "--openai-base-url", paths.base_url, "--model", MODEL,
        "--yolo", ASKED,
    )  # fmt: skip
    return Setup(arguments, {}, {})


_QWEN_TOOLS = Tools(
    lambda file: ("read_file", {"file_path": str(file)}),
    _named("edit", "file_path"),
    lambda line: ("run_shell_command", {"command": line, "is_background": False}),
)

CLIENTS = (
    Client("claude-code", "claude", MESSAGES, "npm i @anthropic-ai/claude-code@2.1.330", _claude_code,
           partial(_answers, tools=_CLAUDE_TOOLS)),
    Client("codex", "codex", RESPONSES, "npm i @openai/codex@0.169.0", partial(_codex, model=MODEL), _codex_answers),
    Client("codex-gpt", "codex", RESPONSES, "npm i @openai/codex@0.169.0", partial(_codex, model="gpt-5.5"),
           _codex_gpt_answers),
    Client("codex-code", "codex", RESPONSES, "npm i @openai/codex@0.169.0", partial(_codex, model="gpt-5.6-sol"),
           _codex_code_answers, serves=("chat", "messages", "local")),
    *(Client(name, "opencode", dialect, "npm i opencode-ai@1.18.33", partial(_opencode, npm=npm),
             partial(_answers, tools=_OPENCODE_TOOLS)) for name, dialect, npm in _SDKS),
    Client("aider", "aider", CHAT, "pip install aider-chat==0.86.2", _aider, lambda paths, _: task.edits(paths.work),
           has_tools=False),
    Client("llm", "llm", CHAT, "pip install llm==0.36", _llm_with_tools, partial(_answers, tools=_LLM_NAMES)),
    Client("cline", "cline", CHAT, "npm i cline@3.0.65", _cline, partial(_answers, tools=_CLINE_TOOLS)),
    Client("continue", "cn", CHAT, "npm i @continuedev/cli@1.5.47", _continue,
           partial(_answers, tools=_CONTINUE_TOOLS)),
    Client("qwen-code", "qwen", CHAT, "npm i @qwen-code/qwen-code@0.15.10", _qwen,
           partial(_answers, tools=_QWEN_TOOLS, before=1)),
    Client("llm-plain", "llm", CHAT, "pip install llm==0.36", lambda paths: _llm(paths, task.WHO), lambda paths, _: [],
           serves=("llama.cpp",), has_tools=False),
    *MORE_CLIENTS,
)  # fmt: skip
