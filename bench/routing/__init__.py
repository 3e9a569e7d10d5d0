"""What routing by measured quality saves, and what it costs in quality: `python -m bench.routing --help`.

paired          fixtures that the profile was not made of, drawn by the generators of the shipped suites
answers         a right and a wrong answer to a fixture, from its check (pure)
cloud           somebody else's model: an HTTP server that is right on 95 % of each class
routing_stoker  a `stoker up` with local tiers and that cloud; its bootstrap and its decisions
asking          each fixture to each tier, and through `auto` and `auto:CLASS`; graded by the suites' own checkers
policies        who would have served what: always one tier, the best per class, oracle (pure)
figures         each policy beside always asking the cloud, each class, each curve (pure)
curve           performance gap recovered, the area under it, AIQ; each with its source (pure)
resample        intervals by resampling fixtures, whole and within their class (pure)
report          tables from that, and whether the figures are reached (pure)
picture         the curve and the policies as SVG (pure)
page            the same between two marks of bench/routing.md
"""
