"""How a serve runs, is watched and ends.

unit         what every driver offers; termination: one shutdown, shared by all who ask for it
local        the process driver: starts a process, and finds it again after a restart of Stoker
process      a local process in its own session; exit_watch: notices its end; process_group: its members and signals
compose      the container driver: runs the serve's `up` command (compose_up: what that command is and does)
containers   the states of a container and what to do in each; inspection: reads the state
container_records  what is stored about containers between runs
container_unit  one running container                docker  the `docker` command; subcommand: one bounded command
systemd      the unit driver; systemd_unit: one running unit
external     a serve that runs elsewhere: its address and its health
conflicts    stops containers and units that cannot run beside a serve
"""
