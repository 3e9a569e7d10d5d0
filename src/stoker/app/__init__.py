"""The composition root: builds the parts, reloads them, runs them until a signal.

application   everything wired: build, reload, what happened, serve, close
"""
