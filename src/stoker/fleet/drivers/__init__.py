"""How a serve is started, watched and ended.

unit               what every driver offers, and how a unit is ended once
local              the process driver: starts a process, finds it again after a restart, runs its `stop` command
process_group      a local process in its own session: its members, signals and end
container_driver   runs a serve's `up` command and the `docker` commands around it, and watches the container
up_command         reads that command; docker: the `docker` command, with limits
containers         the states of a container, and what a start does in each; inspection: reads the state
systemd            the systemd driver, and one running unit
external           a serve that runs elsewhere: its address and its health
conflicts          stops containers and units that cannot run beside a serve
"""
