"""Files on disk: how Stoker writes them, hashes them and names them. Knows nothing of requests or serves.

directories  private directories, and the error for one that cannot be used
atomic       write a file so that a reader sees the old one or the new one
hashes       the SHA-256 of files, each read only once
remedies     what to do about a file that cannot be written
gguf_header  the header of a GGUF file: facts and tensor sizes
model_file   what is wrong with a model file
split_gguf   the names of a GGUF model that is split into several files
"""
