"""The page of `warplens analyze --html`: one file that holds all it needs, made of sections, each in its own module.

`content` gathers what is shown, for JSON too; `markup` and `axes` write HTML and SVG; `frame` puts the page together.
"""
