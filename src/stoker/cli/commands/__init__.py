"""One module per command; `eval`, `gate` and `client` hand on to `evaluate/` and `clients/`."""
