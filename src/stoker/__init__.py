"""Stoker: one stable endpoint for the language models that you run yourself.

From the top: a package imports only those in lower rows, `cli` also `app`, `gateway` also `promotion`, `testing` also
`measure`.

    cli        the command line                     app        builds and runs the program
    gateway    the front door: HTTP, flow, admin    promotion  an alias moves on evidence
    quality    what is found out while tiers serve  orchestrate  a worker writes block by block, checks judge
    fleet      starts, swaps, watches serves        measure    benchmarks, gates, suites
    config     the configuration file               store      decisions, metrics, state on disk
    routing    which tier answers                   testing    test tools that ship with the package
    exchange   sends a request to a serve, and handles its reply
    request    the steps of a request: accept, codec, decide, lease, translate, relay, verify
    http       single questions over HTTP, outside the path of requests
    disk       private files and directories, hashes, names of split models
    domain     the nouns and the protocols

Start reading at `gateway/flow.py`, then `request/lease/reconcile.py`, the heart.
"""

__version__ = "0.1.0"
