"""LiteLLM's proxy configuration as a `stoker.toml`.

Reading order:

    providers   where each provider answers, and what it speaks
    deployment  one entry of `model_list` as an external serve
    convert     the whole document: groups, fallbacks, prices, keys, and what Stoker has no place for
"""
