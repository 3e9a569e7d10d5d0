"""How a serve is run, watched and ended.

process   a local process in its own session: spawn, SIGTERM, grace, SIGKILL, until its whole group is gone
watch     sees the end of a process at once, ours or adopted
group     who belongs to a process group, and signals to all of it
local     the process driver: from a configured serve to a process and back to it after a restart of ours
compose   a container, made by its serve's `up` (containers: the tables; inspection: what is there; up: whose it is)
docker    the `docker` command; child: one bounded command
systemd   a unit (systemd_unit; systemctl; unit_states: the table)
conflicts containers and units that cannot run beside a serve
external  a serve that somebody else runs: its address, and its health from time to time
unit      what every driver gives; ending: how each of them is ended
"""
