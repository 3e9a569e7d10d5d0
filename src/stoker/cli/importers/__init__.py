"""Reads what other programs are configured with, and what models they own, into a `stoker.toml`.

Reading order:

    imported        what an import found: the document to write, and what became of each key
    write           the document as the text of a configuration file, with its secrets beside it
    owned_models    names, slots and contexts for model files that another program owns
    model_folders   gguf_folders: files and their names; lmstudio, hf_cache, llama_presets: where they are
    local_models    all of these places at once, for `stoker init`
    vault_links     hard links to their files, for `--link`
    ollama          ollama_store: manifests, blobs; ollama_engine: what only Ollama loads; ollama_settings: parameters
    llama_swap/     llama-swap's config.yaml
    litellm/        LiteLLM's config.yaml
    engine_command  what the command line of an engine says, for keys of a `[[serve]]`
    relative_paths  paths of a command that is started in another directory than before
    secret_words    keeps secrets of a command out of the configuration
    yaml_file       YAML as Go programs read it
"""
