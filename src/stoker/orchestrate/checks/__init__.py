"""The checks of one block, cheapest first.

structure   does it parse     checker   asks the layers, and turns what they find into a result
"""
