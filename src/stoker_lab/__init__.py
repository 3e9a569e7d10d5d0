"""What a model does and what it costs, measured over raw HTTP.

requests/    one request to one model, with its times     statistics/  intervals, the sequential test, drift; pure
artifacts/   a run as a file, and the fingerprint of what was measured
preflight/   protocol and behaviour: does the server answer as its API says?
canary/      does the model still answer as it did?       soak/        canary and decode speed in cycles, for hours
load/        benchmarks under load                        trials/      other settings of a serve; its largest context
suites/      how good are the answers to fixtures?        planning/    plans graded by their structure
validator/   how often is a validator model wrong about blocks of code?
comparison/  two results beside each other; pure          reports/     HTML pages
gate/        does a serve meet the gate of an alias? Pure

commands/    `stoker eval`, `gate`, `results`, `serves experiment`
testing/     the testing kit: no GPU, no model, no sleep

identify     which model answers: asked, and from the engine's own facts
judge_prompt, judge_trust, judging  how a judge is asked, and which of its grades count
lock            one measurement at a time on one slot     json_schema  does a value match a JSON schema? Pure
"""
