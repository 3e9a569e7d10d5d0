"""What a body says, and what Stoker itself says in each dialect. Pure.

body_fields        the top-level fields of a request body that Stoker needs, and where they are
bounds             how much structure a body may hold, counted before anything is decoded
edits              the only changes to a body that passes through: model, usage, engine-private parameters
frames             reads a stream as it passes: usage, the first meaningful frame, the proper end
own_replies        Stoker's own errors, error events and pings
upstream_messages  what clients get of an engine's own error messages
outline            what routing looks at in a request (with turn_content, harness, envelopes, summaries, toolbox)
"""
