"""Stoker: one stable endpoint for the language models that you run yourself.

From the top: a package imports only those in lower rows, `cli` also `app`.

    cli        the command line                     app        builds and runs the program
    gateway    the front door: HTTP, flow, admin
    fleet      starts, swaps, watches serves        config     the configuration file
    store      decisions, metrics, state and other files on disk
    extensions what other packages add, and how they are found
    exchange   sends a request to a serve, and handles its reply
    access     who may use Stoker, and how much: keys, limits, usage
    request    the steps of a request: accept, codec, decide, lease, translate, relay, verify
    engines    what to run for a serve, when it is ready, why it ended
    http       single questions over HTTP, outside the path of requests
    domain     the nouns and the protocols

Start reading at `gateway/flow.py`, then `request/lease/reconcile.py`, the heart.
"""

__version__ = "0.1.0"
