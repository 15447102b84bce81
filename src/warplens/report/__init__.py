"""Reports: every answer as terminal text, as JSON, and as one self-contained HTML file.

A renderer takes what a lower room found (a Prediction, Advised, a Simulation, an OccupancyTable) and returns parts for
the console, the answer first. It computes nothing that changes an answer. Its `data` returns the same for JSON, its
`page` the same as HTML. Names of kernels, files and arrays are data: terminals and pages show them, and obey nothing.

    terminal.py     console and tables; the head of the first screen, predictions, comparisons, curves, machines
    analysis.py     the rest of the first screen of `analyze`: remedies, parts of the time, counts; all of `advise`
    benefits.py     the benefit X-Y chart of Sim et al. 2012, on the page and as a table
    side_by_side.py predictions side by side: with a change, of two kernels, on several GPUs, of `sweep` and `tune`
    simulation.py   stall reasons, costly instructions and source lines; the trace in Chrome's format
    listing.py      the annotated machine code of `show`
    occupancy.py    resident blocks, block sizes and the map of `occupancy`, on the terminal and as a page
    notebook.py     how objects show themselves in a notebook
    data.py         the JSON encoder
    page/           the HTML page of `analyze`, and the kit that all other pages are made with

To add a report: write a function that returns `list[RenderableType]` with the answer in its first lines, and a `data`
with the same content; the command in cli/ hands both to `show`.
"""
