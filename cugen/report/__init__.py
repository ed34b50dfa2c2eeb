"""`cugen report`: a self-contained HTML page of a kernel, from the result of `cugen.analyze` and its plan.

`page` collects what a page shows, `html` renders it. No figure is computed here that the analysis has.
"""
