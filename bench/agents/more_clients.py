"""Clients with few settings of their own: pi, nanocoder, Copilot CLI, gptme and mini-swe-agent."""

from __future__ import annotations

import json
from functools import partial

from bench.agents import task
from bench.agents.clients import Client, Setup
from bench.agents.session_paths import MODEL, SessionPaths
from bench.agents.task import ASKED, FINAL, NEW, OLD, Answers, Tools
from stoker.domain.dialect import Dialect

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def _answers(paths: SessionPaths, dialect: Dialect, tools: Tools) -> Answers:
    return task.answers(tools, paths.work, sealed=dialect is RESPONSES)


# -- pi -------------------------------------------------------------------------------------------------------


def _pi(paths: SessionPaths, api: str) -> Setup:
    model = {"id": MODEL, "contextWindow": 100_000, "maxTokens": 8000, "reasoning": True}
    address = paths.root if api == "anthropic-messages" else paths.base_url
    provider = {"baseUrl": address, "api": api, "apiKey": paths.key, "models": [model]}
    document = json.dumps({"providers": {"stoker": provider}})
    arguments = ("--offline", "--provider", "stoker", "--model", MODEL, "-p", ASKED)
    return Setup(arguments, {}, {paths.home / ".pi" / "agent" / "models.json": document})


_PI_TOOLS = Tools(
    lambda file: ("read", {"path": str(file)}),
    lambda file: ("edit", {"path": str(file), "edits": [{"oldText": OLD, "newText": NEW}]}),
    lambda line: ("bash", {"command": line}),
)
_PI_APIS = (
    ("pi", CHAT, "openai-completions"),
    ("pi-messages", MESSAGES, "anthropic-messages"),
    ("pi-responses", RESPONSES, "openai-responses"),
)

# -- nanocoder ------------------------------------------------------------------------------------------------


def _nanocoder(paths: SessionPaths) -> Setup:
    provider = {"name": "stoker", "baseUrl": paths.base_url, "apiKey": paths.key, "models": [MODEL]}
    document = json.dumps({"nanocoder": {"providers": [provider]}})
    arguments = ("--provider", "stoker", "--model", MODEL, "--mode", "yolo", "--trust-directory", "run", ASKED)
    return Setup(arguments, {}, {paths.work / "agents.config.json": document})


_NANOCODER_TOOLS = Tools(
    lambda file: ("read_file", {"path": str(file)}),
    lambda file: ("string_replace", {"path": str(file), "old_str": OLD, "new_str": NEW}),
    lambda line: ("execute_bash", {"command": line}),
)

# -- Copilot CLI ----------------------------------------------------------------------------------------------


def _copilot(paths: SessionPaths, kind: str, wire_api: str) -> Setup:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": paths.root if kind == "anthropic" else paths.base_url,
        "COPILOT_PROVIDER_TYPE": kind,
        "COPILOT_PROVIDER_API_KEY": paths.key,
        "COPILOT_PROVIDER_WIRE_API": wire_api,
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "100000",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "8000",
        "COPILOT_MODEL": MODEL,
        "COPILOT_OFFLINE": "true",
    }
    return Setup(("-p", ASKED, "--allow-all-tools", "--allow-all-paths", "--no-auto-update"), variables, {})


_COPILOT_TOOLS = Tools(
    lambda file: ("view", {"path": str(file)}),
    lambda file: ("edit", {"path": str(file), "old_str": OLD, "new_str": NEW}),
    lambda line: ("bash", {"command": line, "description": "Run it"}),
)
_COPILOT_APIS = (
    ("copilot", CHAT, "openai", "completions"),
    ("copilot-messages", MESSAGES, "anthropic", "completions"),
    ("copilot-responses", RESPONSES, "openai", "responses"),
)

# -- gptme ----------------------------------------------------------------------------------------------------


def _gptme(paths: SessionPaths) -> Setup:
    arguments = (
        "--non-interactive", "--no-stream", "--tool-format", "tool", "--tools", "read,patch,shell",
        "--model", f"local/{MODEL}", ASKED,
    )  # fmt: skip
    return Setup(arguments, {"OPENAI_BASE_URL": paths.base_url, "OPENAI_API_KEY": paths.key}, {})


_GPTME_TOOLS = Tools(
    lambda file: ("read", {"path": str(file)}),
    lambda file: (
        "patch",
        {"path": str(file), "patch": f"<<<<<<< ORIGINAL\n    {OLD}\n=======\n    {NEW}\n>>>>>>> UPDATED"},
    ),
    lambda line: ("shell", {"command": line}),
)

# -- mini-swe-agent -------------------------------------------------------------------------------------------


def _mini(paths: SessionPaths) -> Setup:
    arguments = ("-m", f"openai/{MODEL}", "-t", ASKED, "-y", "--exit-immediately", "-o", str(paths.home / "run.json"))
    variables = {
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "OPENAI_API_BASE": paths.base_url,
        "OPENAI_API_KEY": paths.key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return Setup(arguments, variables, {})


_MINI_TOOLS = Tools(
    lambda file: ("bash", {"command": f"cat {file.name}"}),
    lambda file: ("bash", {"command": f"sed -i 's/{task.WRONG}/{task.RIGHT}/' {file.name}"}),
    lambda line: ("bash", {"command": line}),
)


def _mini_answers(paths: SessionPaths, dialect: Dialect) -> Answers:
    """It ends by a command, not by words alone."""
    *steps, _, title = _answers(paths, dialect, _MINI_TOOLS)
    command = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
    end = [
        {"type": "text", "text": FINAL},
        {"type": "call", "id": "call_end_x", "name": "bash", "arguments": command},
    ]
    return [*steps, {"blocks": end}, title]


MORE_CLIENTS = (
    *(Client(name, "pi", dialect, "npm i @mariozechner/pi-coding-agent@0.73.1", partial(_pi, api=api),
             partial(_answers, tools=_PI_TOOLS)) for name, dialect, api in _PI_APIS),
    Client("nanocoder", "nanocoder", CHAT, "npm i @nanocollective/nanocoder@1.30.0 node@22", _nanocoder,
           partial(_answers, tools=_NANOCODER_TOOLS)),
    *(Client(name, "copilot", dialect, "npm i @github/copilot@1.0.102", partial(_copilot, kind=kind, wire_api=wire_api),
             partial(_answers, tools=_COPILOT_TOOLS)) for name, dialect, kind, wire_api in _COPILOT_APIS),
    Client("gptme", "gptme", CHAT, "pip install gptme==0.35.1", _gptme, partial(_answers, tools=_GPTME_TOOLS)),
    Client("mini-swe-agent", "mini", CHAT, "pip install mini-swe-agent==2.4.6 mcp", _mini, _mini_answers),
)  # fmt: skip
