"""A Mac's GPU computes in main memory: how much of it a model may have there. What macOS answers is scripted here, as
programs on PATH; a real Mac has not run this.
"""

from __future__ import annotations

GIB = 2**30
