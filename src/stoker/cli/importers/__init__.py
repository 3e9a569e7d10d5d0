"""Reads what other programs are configured with, and what models they own, into a `stoker.toml`.

Reading order:

    imported       what an import found: the document to write, and what became of each key
    write          the document as the text of a configuration file, with its secrets beside it
    owned_models   names, slots and contexts for model files that another program owns
    model_folders  gguf_folders: files and their names; lmstudio, hf_cache, llama_presets: where they are
    local_models   all of these places at once, for `stoker init`
    ollama         ollama_store: manifests and blobs; ollama_engine: what only Ollama loads; ollama_settings: parameters
"""
