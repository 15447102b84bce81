"""The encoding of instructions, learned from nvdisasm: the table by which warplens reads machine code without it.

`python -m warplens.laboratory.encoding.learn OUT.json FILE...` writes such a table; `program/files/sm_90.json` is one.
"""
