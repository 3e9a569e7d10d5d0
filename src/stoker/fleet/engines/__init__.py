"""The former place of `stoker.engines`, from which commands in configuration files may still start the embedded one."""
