"""What a model does and what it costs, measured over raw HTTP.

talk       one request to one model: what came, and when
timing     the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
stats      intervals, the sequential test, drift; pure
server     which models a server has, and how many tokens a prompt comes to there
prompts    prompts of an exact length; what they share with each other
load       so many clients, or so many requests a second
ladder     which concurrency comes next, the knee, drift; pure
presets    what a benchmark consists of; pure
bench      a benchmark under way; `replay`: its recorded traffic
figures    from requests to numbers with names; pure
result     from a benchmark to its Run; `artifact`: where it is kept; `alone`: one at a time
compare    two runs beside each other; pure
report     the HTML page, with report.html and `plots`; pure
"""
