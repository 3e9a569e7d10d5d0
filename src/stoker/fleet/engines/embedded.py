"""`python -m stoker.fleet.engines.embedded`: the former name of `stoker.engines.embedded`."""

from __future__ import annotations

import os
import sys

from stoker.engines.embedded import main

if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
