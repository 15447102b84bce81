"""HTML pages: one file each that holds all it needs, light and dark, for wide and narrow screens.

Every number says where it comes from, when one hovers over it or reaches it by keyboard. Nothing is loaded, a policy
allows the page's own script alone, and whatever is not `Markup` is escaped.

    markup.py     elements, tables, numbers with their origin; `document` puts a page of sections together
    svg.py        charts, drawn twice so that letters keep their size on a phone: a Plot is a list of Series (lines,
                  points, bars, rules, areas, arrows, spots) over linear or logarithmic axes, with key and numbers
    content.py    what the page of `analyze` shows, gathered once for the page and for JSON; origins of its numbers
    curves.py     the numbers of throughput against occupancy and of the roofline
    frame.py      the page of `analyze`: its order of sections; the answer, remedies and assumptions
    pictures.py   the charts of curves.py, the parts of the time, stall reasons, and the timeline of warps
    code.py       source and machine code side by side; access patterns
    models.py     the published models; the page of `compare`
    page.css, page.js   style and script of every page

To add a section to the page of `analyze`: write a function from `Content` to `Markup` and name it in
`frame.SECTIONS`. Numbers that JSON shall have too are a field of `Content` and a key of `content.data`.
To add another page: hand `Section`s to `document`; `svg.figure` draws a `Plot`.
"""
