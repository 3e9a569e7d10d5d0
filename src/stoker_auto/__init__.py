"""Routes requests for tasks to the cheapest tier that proved good enough, and moves aliases on evidence.

routing/     which tier answers a request that names a task class, or `auto`
decide/      which tiers may serve a task, in which order, and why; how a tier was measured. Pure
classify/    the task class of a request: declared, by its form, or by learned weights. Pure
classifier/  does a model tell task classes better than the built-in classifier?
quality/     what is found out about the tiers while they serve
promotion/   moves an alias to another serve on evidence, and back
commands/    `stoker route`, `promote`, `profile`, `eval classifier`, `decisions --routes`

server       the part of the server: start reading here      pages, operations   its paths below /admin
counts       totals of routed requests, for /metrics         exposition  their series
spending     what a routed request cost, compared with the most expensive cloud
routing_report   what routing did, from recorded decisions; pure
"""
