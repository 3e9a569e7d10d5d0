"""What a model does and what it costs, measured over raw HTTP.

talk       one request to one model: what came, and when
timing     the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
stats      intervals, the sequential test, drift; pure
"""
