"""What a gateway costs, side by side in one run: `python -m bench.overhead --help`.

gateways        the table of the peers: where each is found, how it is started
configurations  what each is told
scenarios       what load they get
rounds          starts them, interleaves the scenarios, collects what the load generator saw
report          figures from that: medians over the rounds, ratios to nginx, the figures to reach (pure)
"""
