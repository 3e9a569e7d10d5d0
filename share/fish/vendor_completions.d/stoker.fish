# Completion of stoker's commands in fish.
complete --command stoker --no-files --arguments "(env _STOKER_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) stoker)" \
    --condition "env _STOKER_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) stoker"
