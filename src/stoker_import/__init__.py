"""Turns the configuration of other programs, and the models that they own, into a `stoker.toml`.

Reading order:

    imported        what an import found: the document to write, and what became of each key
    write           the document as the text of a configuration file, with its secrets beside it
    owned_models    names, slots and contexts for model files that another program owns
    model_folders   gguf_folders: files and their names; lmstudio, hf_cache, llama_presets: where they are
    local_models    all of these places at once, for `stoker init`
    vault_links     hard links to their files, for `--link`
    ollama          all of Ollama's models as serves, with these parts:
                    ollama_store     manifests and blobs
                    ollama_settings  a model's parameters (num_ctx, num_predict ...), and Ollama's environment variables
                    ollama_engine    models that only Ollama's own engine loads
    llama_swap/     llama-swap's config.yaml
    litellm/        LiteLLM's config.yaml
    engine_command  reads the command line of an engine into keys of a `[[serve]]`
    kinds           what a model answers, guessed from its name
    secret_words    keeps secrets of a command out of the configuration
    yaml_file       reads YAML as Go programs do
    commands        `stoker import`, one command for each program: command_models, command_llama_swap, command_litellm;
                    command_output says what was found and what to do next
"""
