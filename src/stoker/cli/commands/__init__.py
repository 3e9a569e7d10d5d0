"""One module per command; modules with a longer name hold parts of the command that they begin with.

decisions          and `explain`: decisions_follow
docs               docs_load: docs_site of a release, docs_pages of a checkout; docs_search, docs_server
doctor             doctor_checks
init               init_config: the text of a first configuration
serves             log_tail for `serves logs`
run_stoker         a Stoker for one command
stage              stage_output
up                 demo_screen
dry_run            `--dry-run` of several commands
"""
