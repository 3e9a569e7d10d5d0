"""Commands: parse, call, print. Nothing is decided here."""
