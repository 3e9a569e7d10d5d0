"""What a body says, and how Stoker speaks in each dialect. Pure.

peek     the few top-level fields of a request body that Stoker needs, and where they stand
edits    the only changes made to a body that passes through: model, usage, engine-private parameters
frames   a reader beside the stream: usage, the first meaningful frame, the proper end
speak    Stoker's own errors, error events and pings, in the caller's dialect
"""
