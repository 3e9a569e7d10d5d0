"""What outlives a request: decisions, the state directory, and the figures that /metrics shows.

decisions       DecisionLog: one record per request; read_recent(), read_one() for other processes
writer          the thread behind it: batches, retries, and what became of each record
database        the SQLite file: its schema, its limit, when it is beyond use and moved aside

live            what live grades say of the tiers, and what grading cost today

results         Results: the index over the files of measurements

metrics         Metrics: what sealed decisions and swaps add up to
histogram       buckets and their bounds
labels          which label values may appear at all
exposition      those sums and the status document as Prometheus text

state           StateDir: the directory that one `up` owns, and the lock on it
control_socket  where `up` listens for commands
signing         the key that thinking blocks are signed with

On a request's way `decisions` costs one append and `metrics` a few additions. The rest happens elsewhere.
"""
