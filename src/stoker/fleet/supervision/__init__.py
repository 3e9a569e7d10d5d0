"""The fleet: starts, adopts, puts to sleep and stops serves.

supervisor  start, sleep, stop, adopt, close; `keeping`: the books it works on
lifecycle   one table: the states of a serve and what may happen in each; `held`: one serve, from launch to gone
preflight   what stands in the way of a start: requirements, ports
adoption    finding what an earlier control plane left running
obituary    what is said of a start that failed, or of a serve that ended
rest        putting to sleep and waking; `scales`: measuring what a serve holds in memory
"""
