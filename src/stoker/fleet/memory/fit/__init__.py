"""Before a start: how much memory will this model need, and does it suit this device?

gguf       reads a model's shape from the header of GGUF files (stoker.store.files.gguf_header)
hf_config  reads it from config.json and the headers of safetensors files
estimate   shape and settings -> bytes, and whether they fit; largest context, largest parallel (pure)
trained    is the context above what the model was trained for?
rules      which quantisation suits which GPU: dated data in rules.toml
repository the models of a hub repository, each judged for this machine: for `stoker fit hf:ORG/REPO`
check      all of it for one serve: for `stoker fit`, for the fleet before a swap, and for `context = "auto"`
"""
