"""HTML pages: one file each, without scripts or links to other files. Pure.

benchmark_page  a benchmark, with report.html    models_page  two models compared    plots  SVG
"""
