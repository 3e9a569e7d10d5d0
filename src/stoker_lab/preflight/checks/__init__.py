"""The checks of a preflight, one family per file; each file ends with its table of checks."""
