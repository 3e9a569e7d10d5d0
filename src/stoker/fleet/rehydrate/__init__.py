"""Weights that are missing are fetched from where they come from, and proved by hash before anything starts.

sources     what `source` says: a path, the web, rsync, S3, a model hub; which command fetches it (pure)
copying     a chunked copy with its hash, in a thread; goes on where an interrupted one ended
over_http   the same over HTTP(S); `connection` is one GET through redirects and proxy
drafts      what a fetch leaves on disk before it is done
threads     work that blocks, and stops when it is not wanted any more
tools       running rsync, aws or hf: watched, bounded, ended with everything they started
fetch       one file or folder: room, draft, hash, rename; two fetches of one file are one
verify      the hashes of what is there, remembered so that a start does not read 40 GB again
rehydrator  what the fleet asks: missing, problems, rehydrate, verify
"""
