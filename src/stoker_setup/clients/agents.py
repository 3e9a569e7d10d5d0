"""The coding agents. Each block was run as it is printed where `tried` names a version."""

from __future__ import annotations

from stoker.domain.dialect import Dialect
from stoker_setup.clients.client_types import KEY_VALUE, BlockFormat, Client, Program, SettingsBlock

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES

ROO = Client(
    "roo", "Roo Code", "OpenAI Compatible", CHAT,
    takes_reply_off=True, documented_context=32_768,  # https://docs.ollama.com/integrations/roo-code
    blocks=(
        SettingsBlock(BlockFormat.FORM, """
API Provider: OpenAI Compatible
Base URL: <base_url>
API Key: the value of $<key>
Model: <model>
Max Output Tokens: <max_output>
Context Window Size: <window>
Image Support: <images>
Use custom temperature: <temperature>
""", "Roo Code > Settings > Providers"),
    ),
    notes=("Roo Code subtracts the reply from its window itself, so the window is the serve's context.",),
)  # fmt: skip

CLAUDE_CODE = Client(
    "claude-code", "Claude Code", "Anthropic API", MESSAGES,
    tried="2.1.197", at_root=True, sets_temperature=False, plain_names=True, own_prompt=20_000,
    helper_name="claude-haiku-4-5",
    program=Program(
        ("claude",), "npm install -g @anthropic-ai/claude-code",
        unset=(
            "ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_SUBAGENT_MODEL",
        ),
        variables=(
            ("ANTHROPIC_BASE_URL", "<root>"),
            ("ANTHROPIC_AUTH_TOKEN", KEY_VALUE),
            ("ANTHROPIC_MODEL", "<model>"),
            ("ANTHROPIC_DEFAULT_OPUS_MODEL", "<model>"),
            ("ANTHROPIC_DEFAULT_SONNET_MODEL", "<model>"),
            ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "<helper_model>"),
            ("ANTHROPIC_SMALL_FAST_MODEL", "<helper_model>"),
            ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "<max_output>"),
            ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "<claude_percent>"),
            ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ),
    ),
    notes=(
        "It assumes a window of 200,000 tokens for every model; the percentage makes it compact at the recommended "
        "context.",
        "Without the attribution header its prompts begin alike, so that prefix caches work.",
    ),
)  # fmt: skip

AIDER = Client(
    "aider", "aider", "openai/ (LiteLLM)", CHAT,
    tried="0.86.2", own_prompt=2_000,
    blocks=(
        SettingsBlock(BlockFormat.JSON, """
{
  <openai_helper_only>: <aider_helper>,
  <openai_model>: {
    "max_input_tokens": <client_context>,
    "max_output_tokens": <max_output>,
    "max_tokens": <max_output>,
    "input_cost_per_token": 0,
    "output_cost_per_token": 0,
    "supports_vision": <images>,
    "litellm_provider": "openai",
    "mode": "chat"
  }
}
""", "./.aider.model.metadata.json"),
        SettingsBlock(BlockFormat.YAML, """
- name: <openai_model>
  use_temperature: <temperature>
  extra_params:
    max_tokens: <max_output>
""", "./.aider.model.settings.yml"),
    ),
    program=Program(
        ("aider", "--model", "<openai_model>", "--weak-model", "<openai_helper_model>"), "pip install aider-chat",
        unset=("AIDER_OPENAI_API_BASE", "AIDER_OPENAI_API_KEY", "OPENAI_BASE_URL"),
        variables=(("OPENAI_API_BASE", "<base_url>"), ("OPENAI_API_KEY", KEY_VALUE)),
        launch_words=("--model-metadata-file", "<file 0>", "--model-settings-file", "<file 1>"),
    ),
)  # fmt: skip

CONTINUE = Client(
    "continue", "Continue", "openai", CHAT,
    tried="cn 1.5.47", takes_reply_off=True, own_prompt=2_000,
    blocks=(
        SettingsBlock(BlockFormat.YAML, """
name: stoker
version: 1.0.0
schema: v1
models:
  - name: <model>
    provider: openai
    model: <model>
    apiBase: <base_url>
    apiKey: ${{ secrets.<key> }}
    roles: [chat, edit, apply]
    capabilities: <continue_skills>
    defaultCompletionOptions:
      contextLength: <window>
      maxTokens: <max_output>
      temperature: <temperature>
""", "~/.continue/config.yaml"),
    ),
    program=Program(
        ("cn",), "npm install -g @continuedev/cli",
        file_words=("--config", "~/.continue/config.yaml"),
        launch_words=("--config", "<file 0>"),
    ),
    notes=("An editor does not see a shell's variables: for the extension the key goes into ~/.continue/.env.",),
)  # fmt: skip

OPENCODE = Client(
    "opencode", "opencode", "@ai-sdk/openai-compatible", CHAT,
    tried="1.18.33", takes_reply_off=True, own_prompt=8_000,
    blocks=(
        SettingsBlock(BlockFormat.JSON, """
{
  "$schema": "https://opencode.ai/config.json",
  "model": <stoker_model>,
  "small_model": <stoker_helper_model>,
  "agent": {
    "build": { "temperature": <temperature> },
    "plan": { "temperature": <temperature> }
  },
  "provider": {
    "stoker": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Stoker",
      "options": { "baseURL": <base_url>, "apiKey": "{env:<key>}" },
      "models": {
        <helper_only>: <opencode_helper>,
        <model>: {
          "limit": { "context": <window>, "output": <max_output> },
          "modalities": { "input": <inputs>, "output": ["text"] },
          "attachment": <images>,
          "temperature": true,
          "tool_call": true,
          "name": <model>
        }
      }
    }
  }
}
""", "./opencode.json"),
    ),
    program=Program(
        ("opencode",), "npm install -g opencode-ai",
        launch_variables=(("OPENCODE_CONFIG_CONTENT", "<text 0>"),),
    ),
)  # fmt: skip

CODEX = Client(
    "codex", "Codex CLI", "model_providers", RESPONSES,
    tried="0.169.0", sets_temperature=False, takes_reply_off=True, own_prompt=10_000,
    blocks=(
        SettingsBlock(BlockFormat.TOML, """
model = <model>
model_provider = "stoker"
model_context_window = <window>
model_auto_compact_token_limit = <client_context>

[model_providers.stoker]
name = "Stoker"
base_url = <base_url>
env_key = "<key>"
wire_api = "responses"
""", "~/.codex/config.toml"),
    ),
    program=Program(("codex",), "npm install -g @openai/codex", launch_words=("<options 0>",)),
)  # fmt: skip

CLINE = Client(
    "cline", "Cline", "OpenAI Compatible", CHAT,
    tried="3.0.65", own_prompt=6_000,
    blocks=(
        SettingsBlock(BlockFormat.FORM, """
API Provider: OpenAI Compatible
Base URL: <base_url>
OpenAI Compatible API Key: the value of $<key>
Model ID: <model>
Context Window Size: <window>
Max Output Tokens: <max_output>
Supports Images: <images>
Temperature: <temperature>
""", "Cline > Settings > API Configuration"),
        SettingsBlock(BlockFormat.SHELL, """
cline auth -p openai-compatible -k "$<key>" -m <model> -b <base_url>
cline -P openai-compatible -m <model>
""", "its command line"),
    ),
)  # fmt: skip

QWEN_CODE = Client(
    "qwen-code", "Qwen Code", "openai", CHAT,
    tried="0.15.10", takes_reply_off=True, own_prompt=20_000,
    blocks=(
        SettingsBlock(BlockFormat.JSON, """
{
  "security": { "auth": { "selectedType": "openai" } },
  "model": { "name": <model> },
  "modelProviders": {
    "openai": [
      {
        "id": <model>,
        "envKey": "<key>",
        "baseUrl": <base_url>,
        "generationConfig": {
          "contextWindowSize": <window>,
          "modalities": { "image": <images> },
          "samplingParams": { "temperature": <temperature>, "max_tokens": <max_output> }
        }
      }
    ]
  }
}
""", "~/.qwen/settings.json"),
    ),
    program=Program(
        ("qwen",), "npm install -g @qwen-code/qwen-code",
        launch_variables=(("QWEN_CODE_SYSTEM_SETTINGS_PATH", "<file 0>"),),
    ),
)  # fmt: skip

COPILOT = Client(
    "copilot", "Copilot CLI", "openai, with a key of your own", CHAT,
    tried="1.0.102", sets_temperature=False, own_prompt=12_000,
    program=Program(
        ("copilot",), "npm install -g @github/copilot",
        unset=("COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_WIRE_MODEL"),
        variables=(
            ("COPILOT_PROVIDER_TYPE", "openai"),
            ("COPILOT_PROVIDER_BASE_URL", "<base_url>"),
            ("COPILOT_PROVIDER_API_KEY", KEY_VALUE),
            ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "<client_context>"),
            ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "<max_output>"),
            ("COPILOT_MODEL", "<model>"),
            ("COPILOT_OFFLINE", "true"),
        ),
    ),
    notes=("Offline it asks GitHub for nothing, and needs no account there.",),
)  # fmt: skip

GPTME = Client(
    "gptme", "gptme", "local/", CHAT,
    tried="0.35.1", sets_temperature=False, own_prompt=4_000,
    program=Program(
        ("gptme", "--tool-format", "tool", "--model", "local/<model>"), "pip install gptme",
        variables=(("OPENAI_BASE_URL", "<base_url>"), ("OPENAI_API_KEY", KEY_VALUE)),
    ),
)  # fmt: skip

MINI_SWE_AGENT = Client(
    "mini-swe-agent", "mini-swe-agent", "openai/ (LiteLLM)", CHAT,
    tried="2.4.6", sets_temperature=False, own_prompt=1_000,
    program=Program(
        ("mini", "--model", "<openai_model>"), "pip install mini-swe-agent",
        unset=("OPENAI_BASE_URL",),
        variables=(
            ("OPENAI_API_BASE", "<base_url>"), ("OPENAI_API_KEY", KEY_VALUE), ("MSWEA_COST_TRACKING", "ignore_errors"),
        ),
    ),
    notes=("Without MSWEA_COST_TRACKING it stops, since it knows no price for your model.",),
)  # fmt: skip

PI = Client(
    "pi", "pi", "models.json", CHAT,
    tried="0.73.1", sets_temperature=False, takes_reply_off=True, own_prompt=2_000,
    blocks=(
        SettingsBlock(BlockFormat.JSON, """
{
  "providers": {
    "stoker": {
      "baseUrl": <base_url>,
      "api": "openai-completions",
      "apiKey": "<key>",
      "models": [
        {
          "contextWindow": <window>,
          "maxTokens": <max_output>,
          "input": <inputs>,
          "id": <model>
        }
      ]
    }
  }
}
""", "~/.pi/agent/models.json"),
    ),
    program=Program(
        ("pi", "--provider", "stoker", "--model", "<model>"), "npm install -g @mariozechner/pi-coding-agent",
        launch_words=("--extension", "<file 1>"),
        launch_blocks=(
            SettingsBlock(BlockFormat.JSON, """
export default function (pi) {
  pi.registerProvider("stoker", {
    baseUrl: <base_url>,
    api: "openai-completions",
    apiKey: "<key>",
    models: [{
      id: <model>,
      name: <model>,
      contextWindow: <window_or_default>,
      maxTokens: <max_output>,
      input: <inputs>,
      reasoning: false,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    }],
  });
}
""", "provider.js"),
        ),
    ),
)  # fmt: skip

GOOSE = Client(
    "goose", "goose", "openai", CHAT,
    documented_context=32_768,  # https://docs.ollama.com/integrations/goose
    program=Program(
        ("goose",),
        "curl -fsSL https://github.com/aaif-goose/goose/releases/download/stable/download_cli.sh | bash",
        unset=(
            "OPENAI_BASE_PATH", "GOOSE_LEAD_PROVIDER", "GOOSE_LEAD_MODEL", "GOOSE_PLANNER_PROVIDER",
            "GOOSE_PLANNER_MODEL",
        ),
        variables=(
            ("GOOSE_PROVIDER", "openai"),
            ("GOOSE_MODEL", "<model>"),
            ("GOOSE_TEMPERATURE", "<temperature>"),
            ("GOOSE_CONTEXT_LIMIT", "<client_context>"),
            ("GOOSE_MAX_TOKENS", "<max_output>"),
            ("OPENAI_HOST", "<root>"),
            ("OPENAI_API_KEY", KEY_VALUE),
        ),
    ),
)  # fmt: skip

AGENTS = (
    ROO, CLAUDE_CODE, AIDER, CONTINUE, OPENCODE, CODEX, CLINE, QWEN_CODE, COPILOT, GPTME, MINI_SWE_AGENT, PI, GOOSE,
)  # fmt: skip
