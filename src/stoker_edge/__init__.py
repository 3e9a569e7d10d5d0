"""Workers whose address may change: found, proved, and followed by an ingress (route sync) or by serves.

edge         an edge as the program has it      table      `[edge.NAME]`: its keys and rules
sync         one run: under the lock, interrupted switches first
  plan       the order of the steps, as a table; read it first
  switch     carries out each step
discover     which addresses the worker may have (ec2: by the AWS API)
command      runs one command of the configuration, bounded
probe        asks them directly: health, exact id
template     renders the upstream file
ingress      replaces it, validates and reloads
  config_copy  lets the ingress validate a candidate before the file in place is touched
  journal    the switch under way, on disk: a crash is finished or undone by the next run
verify       asks through the public routes: TLS, exact id, one streamed token
follow       keeps the address of each worker for serves with `base_url = "edge:NAME"`
problem      the error of all of them
"""
