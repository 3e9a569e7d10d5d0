"""Our timer against a server whose times are known."""
