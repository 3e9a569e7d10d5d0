"""One request to a server that is measured.

client    sends it over raw HTTP in any dialect, and records what came and when
timing    the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
endpoint  which models a server has, and how many tokens a prompt has there
"""
