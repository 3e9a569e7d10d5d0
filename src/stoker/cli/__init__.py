"""The command line: parse, call, print. Nothing is decided here.

main       the tree of commands, and the one place where an error becomes an exit code
options    the options that many commands share, and completion of serve names
terminal   what people see (tables, lines) and what programs see (`--json`)
figures    seconds, sizes and dates in words
failure    errors of the command line and their exit codes: 1 refused or failed, 2 usage
place      which configuration, which state directory, which socket
control    HTTP over STATE/stoker.sock to a running `up`; `answers` are its typed results
progress   one live line while a model loads

up, demo             `up`            serves, slot, bring, plan   `serves`, `slot`: do it, or say what would run
experiment           one serve from parameters            tail     logs of serves
config               `config`        init, starter, discover      `init`
decisions, story     `decisions`, `explain`               doctor, checks, ports    `doctor`
stage, staged, transfer           `stage`: fetch a model; what it prints; its progress
client, clients/     `client`: settings for agents, SDKs and shells
eval, evaluate/      `eval`: measurements of a model
gate, promote        `gate`: is it good enough?; `promote`: an alias moves on that

Everything heavy (rich, pydantic, stoker.app, stoker.config) is imported inside the commands: `stoker --help`
has to answer in under 200 ms.
"""
