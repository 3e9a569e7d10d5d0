"""Everything that outlives a request: decisions, the state directory, and the figures for /metrics.

decisions         DecisionLog: one record per request; read_recent and read_one for other processes
writer            its thread: batches, retries, and the fate of each record
database          their SQLite file: schema, size limit
sqlite_file       opens SQLite files; what is beyond use is set aside
refusal_sampling  which records of refused requests are kept

results           the index of measurement results
responses         responses and conversations that clients stored: the only records here with content
profile           the quality profile
active_residents  the last resident of each slot
paused_slots      the slots that operators paused
journal           swaps in progress

metrics           Metrics: totals of decisions and swaps
key_usage         totals of keys
histogram         buckets and their bounds
labels            allowed label values
families          metric families
exposition, key_usage_exposition, memory_exposition  Prometheus text


state_dir         StateDir: the directory that one `up` owns, and its lock
control_socket    where `up` listens for commands
signing_key       the key that engine keys and signatures are derived from
events            RecentEvents, for `/status`

files             writes, hashes and names files; every room may use it

During a request, `decisions` costs one append and `metrics` a few additions. The rest happens elsewhere.
"""
