"""What every command needs.

options    the options that many commands share, and completion of serve names
terminal   what people see (tables, lines) and what programs see (`--json`)
figures    seconds, sizes and dates in words
failure    errors of the command line and their exit codes: 1 refused or failed, 2 usage
place      which configuration, which state directory, which socket
control    HTTP over STATE/stoker.sock to a running `up`; `answers` and `watched` are its typed results
bring      serves up and down, with progress; `progress`: one live line while a model loads; `transfer`: for downloads
"""
