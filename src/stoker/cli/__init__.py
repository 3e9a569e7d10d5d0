"""The command line: parse, call, print. Nothing is decided here.

entry      the process
main       the tree of all commands, and the one place where an error becomes an exit code
commands/  one module per command
console/   what every command needs: options, output, the control socket
machine/   the GPUs, models, engines and free ports of this machine

Everything heavy (rich, msgspec, stoker.app, stoker.config) is imported inside the commands: `stoker --help`
has to answer in under 200 ms.
"""
