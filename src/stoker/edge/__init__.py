"""Route sync: points an ingress at the worker's current address, and proves it through the public routes.

plan  the order of the steps, as a table
"""
