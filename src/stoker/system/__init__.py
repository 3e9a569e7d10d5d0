"""What differs between operating systems, one module per kind. What a system does not tell is unknown: None.

processes   what a process is and was started with, and an end that follows its parent's
memory      main memory, and how much of it a GPU inside the processor may take
ports       who listens, where outgoing connections begin, and TCP's own probes
identity    which system this is: Linux, macOS, Windows Subsystem for Linux

Two kinds are where they are used: pages of files in `fleet/warm/pages`, services in `fleet/systemd` and
`stoker_setup/launchd`.
"""
