"""What a model does and what it costs, measured over raw HTTP.

requests/    one request to one model: what came, and when
statistics/  intervals, the sequential test, drift; pure
artifacts/   a run as a file; what was measured; two runs side by side
load/        benchmark, soak, context, sweep
gates/       `preflight`: does the server answer as its API says?
suites/      how good are its answers: fixtures, canary, judged and compared models
gate         does a serve meet an alias's gate? Pure; `gate_needs`: what has to be measured for it
routes       what routing did, from recorded decisions; pure
faults/      serving faults on command, by which the gates are measured
"""
