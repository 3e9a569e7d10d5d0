"""llama-swap's configuration, by its own rules, as a `stoker.toml`.

Reading order:

    sources      files to one document: variables of the environment, YAML, several files merged
    macros       the document with its macros written out
    fields       typed values of a mapping; the keys that nobody read are reported
    settings     the document as records: every key with its type and default
    command      a command as words, as llama-swap splits it
    matrix       the expressions of a matrix, written out as sets
    coexistence  groups or matrix: which models may be loaded at the same time, as slots
    models       one model as a `[[serve]]`
    convert      the whole document as a configuration and a report

Rules and defaults are those of llama-swap v250 (internal/config).
"""
