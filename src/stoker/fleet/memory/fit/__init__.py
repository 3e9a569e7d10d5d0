"""Before a start: how much memory will this model need, and does it suit this device?

shape      the properties of a model that determine its memory: weights, layers, KV cache per token
gguf       reads the shape from the header of GGUF files (stoker.store.files.gguf_header)
hf_config  reads the shape from config.json and the headers of safetensors files
estimate   shape and settings -> bytes per device and of main memory; largest context, largest parallel (pure)
comparison compares need and room: fits, tight, too large (pure)
trained    is the context above what the model was trained for?
auto_context  `context = "auto"`: the largest context that fits
rules      which quantisation suits which GPU: dated data in rules.toml
check      all of it for one serve: for `stoker fit`, and for the fleet before a swap
"""
