"""What a model does and what it costs, measured over raw HTTP.

talk       one request to one model: what came, and when
timing     the definitions: TTFT, TTFO, TPOT, gaps, goodput; pure
preflight  every gate that applies, as one artifact; gates/ has them
faults/    serving faults on command, by which the gates are measured
artifact   a run as a file
stats      intervals, the sequential test, drift; pure
judging    an answer under a judge: its question, what it says, what grades add up to; pure

fingerprint   what was measured, in parts that can be read   artifact      a run as a file
canary        the same replies as before?                    canary_set    the questions, in two wordings
soak          canary and decode check in cycles, for hours   schedule      when cycles start; pure
decode        many replies at once: how fast                 context       the largest context that works
drift         whether failures have become more; pure        side_by_side  two runs; pure
lock          one measurement at a time on one slot

server     which models a server has, and how many tokens a prompt comes to there
prompts    prompts of an exact length; what they share with each other
load       so many clients, or so many requests a second
ladder     which concurrency comes next, the knee, drift; pure
presets    what a benchmark consists of; pure
bench      a benchmark under way; `replay`: its recorded traffic
figures    from requests to numbers with names; pure
result     from a benchmark to its Run; `artifact`: where it is kept
compare    two runs beside each other; pure
report     the HTML page, with report.html and `plots`; pure
"""
