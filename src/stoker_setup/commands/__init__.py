"""One module per command; modules with a longer name hold parts of the command that they begin with.

add, remove        reload_after: the running Stoker takes the change, or the file is as it was
docs               docs_load: docs_site of a release, docs_pages of a checkout; docs_search, docs_server
doctor             doctor_checks, doctor_gpu; self_check: what a running Stoker finds
fit                fit_repository: of the model hub
init               init_config: the text of a first configuration
stage              stage_output
"""
