"""Fetches missing weights from their `source`, and verifies them by hash before a start.

rehydrator   what the fleet calls: missing, problems, rehydrate, verify
sources      parses `source`: a path, the web, rsync, S3, a model hub; builds the command (pure)
fetch        one file or folder: check room, fetch, hash, rename; two fetches of one file become one
copying      copies a file with its hash, resumable
http_download  downloads a file with its hash, resumable; http_connection: one GET through redirects and proxies
tools        runs rsync, aws or hf: watched, bounded, ended with all their children
drafts       unfinished files
file_hasher  hashes existing files, each once
threads      runs blocking work in a thread that can be stopped
"""
