"""Reports of the papers' reproductions and of the validation, on the terminal, as JSON and as HTML pages.

    items.py        reproduced tables and figures: ours, the paper's, the difference; the page of `reproduce --html`
    validation.py   errors on measured kernels, intervals, ablation, stall reasons; the page of `validate --kernels`
    mixes.py        errors on the measured mixes, and the occupancy they need; the page of `validate`
    ladders.py      how often advice came true, and how near tuning came to the best of measured spaces

The pages are made with the kit of warplens.report.page: a `Plot` per figure, sections, tables. A page shows no launch
of the test set by name. To add a figure to a reproduction, give its Item another Plot: terminal, JSON and page follow.
"""
