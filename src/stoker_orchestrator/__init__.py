"""Orchestrators: a worker writes block by block, checks judge, and only what passed reaches the client.

orchestrator  what is configured of one              table      its rules, and the files that it names
loop          the state machine, without IO        checks     the layers that judge a block
memory        scratchpads, files of a project      prompts    what the worker and the validator are told
orchestrators the configured ones: which policy, which worker   policy   how a request is answered
counts        totals of orchestrated requests      exposition  their series in /metrics
runner        carries out the loop's commands      worker     asks the worker      reply_writer   answers the client
"""
