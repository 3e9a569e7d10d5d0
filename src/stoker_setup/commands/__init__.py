"""One module per command; modules with a longer name hold parts of the command that they begin with.

docs               docs_load: docs_site of a release, docs_pages of a checkout; docs_search, docs_server
doctor             doctor_checks, doctor_gpu; self_check: what a running Stoker finds
init               init_config: the text of a first configuration
stage              stage_output
"""
