"""Before anything is started: what will this model need, and does it suit this device?

shape      what of a model matters for memory: weights, layers, what one token leaves in the KV cache
gguf       reads it from the header of GGUF files
hf_config  reads it from config.json and the headers of safetensors files
estimate   shape and launch settings -> bytes per device and of main memory; largest context, largest parallel  (pure)
verdict    needed against what there is: fits, tight, too large by N   (pure)
rules      which quantisation suits which GPU: dated data in rules.toml
check      all of it for one serve: what `stoker fit` prints, and what the fleet asks before it stops anybody
"""
