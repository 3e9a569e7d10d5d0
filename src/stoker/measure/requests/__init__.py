"""One request to a server that is measured.

talk    over raw HTTP, in any dialect: what came, and when
timing  the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
server  which models a server has, and how many tokens a prompt comes to there
"""
