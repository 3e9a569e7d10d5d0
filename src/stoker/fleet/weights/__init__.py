"""Brings weights: what a serve misses is downloaded before its start, verified and resumed.

serve_weights    the weights of a serve: its files, what is missing, download it, is it right
sources          parses `source`: a path, the web, rsync, S3, a model hub; builds the command (pure)
download         one file or folder: check room, bring it, hash, rename; two downloads of one file become one
drafts           unfinished files; copying: copies and hashes files, resumable
http_download    downloads a file with its hash, resumable, through redirects and proxies
hub              the model hub's API: what a repository holds, and parts of its files
"""
