"""Write ulist.toml: the baseline and the 43 valid combinations of the optimisations of Sim et al. 2012 §6.2.

python examples/fmm/variants.py > examples/fmm/ulist.toml
"""

from __future__ import annotations

from itertools import product

HEAD = """\
# Written by variants.py.
file = "ulist.cu"
kernel = "ulist"
source = "Sim 2012 §6.2, FMM U-list, baseline"
notes = [
    "Leaves of 128 points where the paper has about 1000, so that one block is a moderate amount of work.",
    "27 neighbours of a leaf, drawn at random; 32 leaves for each of 132 SMs; unroll-and-jam by 2 (all assumed).",
    "Valid: trans needs shmem; at most one of trans, vecpack and tight; pref with shmem only if vecpack.",
]
grid = 4224 # 132 x 32
block = 64

[[arg]]
name = "n"
type = "i32"
value = 540672 # 4224 x 128

[[arg]]
name = "neighbours"
type = "i32"
value = 27

[[arg]]
name = "lists"
type = "i32*"
count = 114048 # 4224 x 27
fill = "random_int(0, 4224)"

[[arg]]
name = "points"
type = "f32*"
count = 2162688 # 4 x 540672
fill = "random"

[[arg]]
name = "out"
type = "f32*"
count = 540672
"""

SMALL = """
[variant.small]
grid = 6
arg.n = 768
arg.neighbours = 3
arg.lists.count = 18
arg.lists.fill = "random_int(0, 6)"
arg.points.count = 3072
arg.out.count = 768
"""


def valid(chosen: set[str]) -> bool:
    """Whether these optimisations can be had together."""
    layouts = chosen & {"trans", "vecpack", "tight"}
    if len(layouts) > 1 or ("trans" in chosen and "shmem" not in chosen):
        return False
    return not {"pref", "shmem"} <= chosen or "vecpack" in chosen


def combinations() -> list[list[str]]:
    """Return the valid combinations, the baseline first."""
    names = ["shmem", "pref", "ujam", "rsqrt", "trans", "vecpack", "tight"]
    made = [[n for n, on in zip(names, switches, strict=True) if on] for switches in product((0, 1), repeat=7)]
    return sorted((m for m in made if valid(set(m))), key=len)


def main() -> None:
    """Print the launch file."""
    print(HEAD, end="")
    for chosen in combinations()[1:]:
        print(f"\n[variant.{'-'.join(chosen)}]")
        print(f'source = "Sim 2012 §6.2, FMM U-list, {", ".join(chosen)}"')
        defines = ", ".join(f'"{n.upper()}=1"' for n in chosen)
        print(f"defines = [{defines}]")
    print(SMALL, end="")


if __name__ == "__main__":
    main()
