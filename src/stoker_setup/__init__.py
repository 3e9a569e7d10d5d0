"""Prepares a machine and its users: a first configuration, checks, weights ahead, services, settings of clients, pages.

extension          what the package offers
commands/          init, doctor, fit, stage, install, client, docs, completions
clients/           what `client` prints for each program
gpu_proof          compares what Stoker says of GPUs with the driver, for `doctor --gpu`
prefetch           plans, downloads, verifies, moves into the vault: what `stage` does (download_progress)
vault              the models in the vault, and the directory in which an unfinished one grows
service_install    plans the changes of `install systemd`, and carries them out: all files or none
"""
