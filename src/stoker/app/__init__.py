"""Builds the program, reloads it, runs it until a signal. Start reading at `run`, then `build`.

run                lock, sockets, log; build, open, serve until a signal, close
take_over          replaces a running Stoker; inherited_sockets  the socket that systemd keeps
build              the parts, from the bottom up: store_parts, access_parts, fleet_parts, event_parts
parts              all of them, as one frozen record per room
context            what every part may be built with; the options of the command line
configuration      the configuration in effect, and what follows from it alone
flow_setup         what the request path works by: names, planners, secrets, limits
server_parts       the parts of extensions; missing_extensions  names whose extension is not installed
reload             a new configuration: what changed, and who hears of it
observers          what happened: who does what on each event
decision_observer  who hears of the end of each request
event_texts        events in words, for `/status` and `stoker status`
event_bus          carries events from the parts to the observers
resume             who ran in each slot, and starting them again after a reboot
clock              real time
"""
