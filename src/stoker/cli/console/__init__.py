"""What every command needs.

options            options that many commands share, and completion of names
terminal           output for people (tables, lines) and for programs (`--json`)
figures            durations, sizes and dates as text
errors             errors of the command line and their exit codes
hints              what to type instead of a command or option that does not exist
installation       which configuration, state directory and socket a command uses
control            HTTP to a running `stoker up` over its unix socket; `answers` has the typed results
answer_stream      one streamed chat answer over that socket
live_events        the events of the running Stoker, over its restarts
loading            loads and unloads serves, with progress (load_progress)
container_note     whether the container of a serve is as it should be
progress           progress with the time left
"""
