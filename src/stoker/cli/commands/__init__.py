"""One module per command; modules with a longer name hold parts of the command that they begin with.

decisions          and `explain`: decisions_follow
serves             log_tail for `serves logs`
run_stoker         a Stoker for one command
up                 demo_screen
dry_run            `--dry-run` of several commands
"""
