"""Where LiteLLM's providers answer, as far as they speak a dialect that Stoker speaks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. Without a `base_url` the entry has to give its `api_base`."""

    base_url: str = ""
    key_variable: str = ""
    """The variable in which LiteLLM looks for the key if the entry gives none."""
    dialects: tuple[str, ...] = ()
    """Empty: those of an OpenAI-like API."""
    ends: str = "/v1"
    """How an address ends at which it speaks OpenAI's API; it may have others, with paths of their own."""
    is_local: bool = False
    """Whether it usually runs on a machine of one's own, and needs no key."""


PROVIDERS: Mapping[str, Provider] = MappingProxyType({
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", ("chat", "completions", "responses")),
    "text-completion-openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", ("completions",)),
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", ("messages",)),
    "azure": Provider(key_variable="AZURE_API_KEY", ends="/openai/v1"),
    "azure_ai": Provider(key_variable="AZURE_AI_API_KEY", ends="/openai/v1"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together_ai": Provider("https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "fireworks_ai": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
    "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "sambanova": Provider("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "nvidia_nim": Provider("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "moonshot": Provider("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "hosted_vllm": Provider(is_local=True),
    "vllm": Provider(is_local=True),
    "openai_like": Provider(is_local=True),
    "custom_openai": Provider(is_local=True),
    "litellm_proxy": Provider(is_local=True),
    "lm_studio": Provider("http://127.0.0.1:1234/v1", is_local=True),
    "llamafile": Provider("http://127.0.0.1:8080/v1", is_local=True),
    "ollama": Provider("http://127.0.0.1:11434/v1", is_local=True),
    "ollama_chat": Provider("http://127.0.0.1:11434/v1", is_local=True),
})  # fmt: skip
_BARE = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "chatgpt-": "openai",
         "text-embedding-": "openai", "claude-": "anthropic"}  # fmt: skip
"""Providers of model names that LiteLLM takes without one."""


def split_model(model: str, provider: str | None = None) -> tuple[str, str]:
    """Provider and the provider's name of the model; the provider is empty if unknown."""
    if provider:
        return provider, model.removeprefix(f"{provider}/")
    first, slash, rest = model.partition("/")
    if slash:
        return first, rest
    return next((known for start, known in _BARE.items() if model.startswith(start)), ""), model


def base_url(provider: str, given: str | None) -> str | None:
    """The address that Stoker needs, which ends in `/v1`; None: the provider's paths are others."""
    known = PROVIDERS.get(provider, Provider())
    if not given:
        return known.base_url or None
    address = given.rstrip("/")
    for tail in ("/chat/completions", "/messages"):
        address = address.removesuffix(tail)
    if address.endswith(known.ends):
        return address
    is_bare = not urlsplit(address).path and known.ends == "/v1"
    return f"{address}/v1" if is_bare else None
