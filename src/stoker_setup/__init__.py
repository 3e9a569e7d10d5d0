"""Prepares a machine and its users: a first configuration, checks, weights ahead, services, settings of clients, pages.

extension          what the package offers
server             its part of the server: answers the web page, at the paths of operations
commands/          init, doctor, fit, stage, install, client, launch, docs
clients/           what `client` prints for each program
gpu_proof          compares what Stoker says of GPUs with the driver, for `doctor --gpu`
prefetch           plans, downloads, verifies, moves into the vault: what `stage` does (download_progress)
hub                the model hub's API: what a repository holds, and parts of its files
hub_models         the models of a hub repository, each judged for this machine
bandwidth          how fast memory can be read, and what that means for the tokens of a request
vault              the models in the vault, and the directory in which an unfinished one grows
service_install    plans the changes of `install systemd`, and carries them out: all files or none
"""
