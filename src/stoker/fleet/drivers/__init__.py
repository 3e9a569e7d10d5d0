"""How a serve is started, watched and ended.

unit         what every driver offers; termination: ends a unit once, however many callers ask for it
local        the process driver: starts a process, and finds it again after a restart of Stoker
process      a local process in its own session; exit_watch: notices its end; process_group: its members and signals
container_driver   runs a serve's `up` command and the `docker` commands around it; up_command: reads that command
containers         the states of a container, and what a start does in each; inspection: reads the state
container_records  what is stored about containers between runs of Stoker
container_unit     one running container
docker       the `docker` command; subcommand: runs one command with limits
systemd      the systemd driver; systemd_unit: one running unit
external     a serve that runs elsewhere: its address and its health
stop_command a serve's own command that ends it
conflicts    stops containers and units that cannot run beside a serve
"""
