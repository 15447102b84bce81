"""Write the machine code of measured loops, for the simulator: mix_code, register_ports_code, load_mix_code and
wide_products_code.json.gz.

Beside, chain_stalls.json: the compiler's stall counts of the laboratory's chains whose results take fixed times.

    python data/h200/loop_code.py

Needs the extra `cuda` (NVRTC 13.4, nvdisasm); no GPU. For each kernel the instructions of one turn of its loop are
kept, as the front end decodes them, without the details of operands.
"""

import gzip
import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import wide_products

from warplens.laboratory import catalogue
from warplens.laboratory.chains import chain
from warplens.laboratory.checks import checked, compiled, timed_loop
from warplens.laboratory.operations import OPERATIONS, PAIRS
from warplens.laboratory.source import source_of
from warplens.program import load_program, nvrtc
from warplens.program.control_flow import flow_graph

here = Path(__file__).parent


def write(name: str, source: str, kernels: Iterable[tuple[str, dict[str, Any]]], arguments: str = "") -> None:
    """Compile kernels (instances of a template, if its arguments are given) and keep the longest loop of each."""
    kernels = list(kernels)
    if arguments:
        source += "".join(f"template __global__ void {kernel}({arguments});\n" for kernel, _ in kernels)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        made_by = nvrtc.compile_source(source, name, "sm_90", [], file)
        for kernel, keys in kernels:
            program = load_program(file, kernel)
            flow = flow_graph(program)
            size = [sum(flow.blocks[b].last - flow.blocks[b].first for b in x.blocks) for x in flow.loops]
            inner = [k for k, x in enumerate(flow.loops) if x.depth == max(y.depth for y in flow.loops)]
            loop = flow.loops[max(inner, key=lambda k: size[k])]
            first, last = flow.blocks[loop.header].first, max(flow.blocks[b].last for b in loop.blocks)
            code = [msgspec.structs.replace(x, operands=(), line=None) for x in program.instructions[first : last + 1]]
            rows.append({**keys, "code": msgspec.to_builtins(code)})
    content = {"command": "python data/h200/loop_code.py", "compiler": made_by, "arch": "sm_90", "loops": rows}
    (here / name).write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))
    print(name, len(rows), "loops")


def part(file: str, first: str, last: str) -> str:
    """Return a part of a source file: its device code."""
    text = (here / file).read_text()
    return text[text.index(first) : text.index(last)]


samples = json.loads(gzip.decompress((here / "mix.json.gz").read_bytes()))["samples"]
mixes = sorted({(s["mix"], s["alpha"], s["ilp"], s["unroll"]) for s in samples})
KINDS = {"load": 0, "sfu": 1, "shared": 2, "add": 3}
write(
    "mix_code.json.gz",
    part("mix.cu", "enum Kind", "static unsigned *array"),
    [(f"mix<(Kind){KINDS[m]}, {a}, {i}>", {"mix": m, "alpha": a, "ilp": i, "unroll": u}) for m, a, i, u in mixes],
    "const unsigned *, unsigned, int, long long, float, unsigned long long *, unsigned *",
)
samples = json.loads((here / "register_ports.json").read_text())["samples"]
bodies = sorted({(s["other"], s["adds"], s["chained"]) for s in samples})
OTHERS = ["none", "mufu", "lds", "ldg64", "address_ldg", "shf", "mufu_loose", "lds_loose"]
write(
    "register_ports_code.json.gz",
    part("register_ports.cu", "#ifndef SCHEDULERS", "static u64"),
    [
        (f"body<{OTHERS.index(o)}, {k}, {'true' if c else 'false'}>",
         {"other": o, "adds": k, "chained": c, "unroll": (512 // (k + 1) + 3) // 4 * 4})
        for o, k, c in bodies
    ],
    "u64 *, float, double *, unsigned, unsigned",
)  # fmt: skip
kernels = [entry.kernels[0] for entry in catalogue.mixes() if re.fullmatch(r"mix\.load\.a\d+", entry.name)]
write(
    "load_mix_code.json.gz",
    source_of(kernels),
    [(k.name, {"mix": "load", "alpha": k.facts["alpha"], "ilp": 1, "unroll": k.facts["unroll"]}) for k in kernels],
)

write(
    "wide_products_code.json.gz",
    wide_products.HEAD + "".join(source for _, _, source in wide_products.loops()),
    [(name, keys) for name, keys, _ in wide_products.loops()],
)

# What a link adds to the loop by the compiler's stall counts: those of 2N links less those of N, as it is measured.
operations = [op for op in (*OPERATIONS, *PAIRS) if not op.width and not op.others]
chains = {op.name: (chain(op), chain(op, doubled=True)) for op in operations}
kernels = [kernel for pair in chains.values() for kernel in pair]
cubin, tools = compiled(kernels, "sm_90")
programs, stalls = checked(kernels, cubin), {}
for name, pair in chains.items():
    loops = [[x.control for x in timed_loop(kernel, programs[kernel.name])] for kernel in pair]
    if all(x is not None and x.write_scoreboard is None for loop in loops for x in loop):
        short, long = (sum(x.stall for x in loop if x) for loop in loops)
        stalls[name] = (long - short) / pair[0].facts["links"]
content = {"command": "python data/h200/loop_code.py", "compiler": tools[0], "arch": "sm_90", "cycles_per_link": stalls}
(here / "chain_stalls.json").write_text(json.dumps(content, indent=1) + "\n")
print("chain_stalls.json", len(stalls), "chains")
