"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Moves from llama-swap, LiteLLM, Ollama, LM Studio, llama.cpp and the hub's cache.",
    commands=(Command("import", "stoker_import.commands:app", "Move from another program: models and configuration."),),
    offers=(Offer("local-models", "stoker_import.local_models:find_local_models"),),
)
