"""What a model does and what it costs, measured over raw HTTP.

talk       one request to one model: what came, and when
timing     the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
preflight  every gate that applies, as one artifact; gates/ has them
faults/    serving faults on command, by which the gates are measured
artifact   a run as a file
stats      intervals, the sequential test, drift; pure
"""
