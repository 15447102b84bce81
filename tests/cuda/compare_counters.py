"""Profile every measured launch and compare it with an H200's counters: what is off, and which share is right.

    python -m tests.cuda.compare_counters --jobs 2 [NAME ...]

A launch is right where L1 and L2 hit rates are within 5 points and DRAM bytes within 10 %; a kernel (a launch file)
where all of its launches are. The last lines give the shares of launches and kernels, of all and of the papers'.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

from tests.cuda.test_profile import counters, is_of_papers, wrong

_FIGURES = ("l1", "l2", "dram")


def shares(off: dict[str, list[str]], names: list[str]) -> dict[str, tuple[int, int]]:
    """Return how many are right of how many, by what is counted; `off` has the launches that are not."""
    made = {}
    for whose, part in (("all", names), ("papers'", [n for n in names if is_of_papers(n)])):
        bad = [n for n in part if set(off.get(n, ())) & set(_FIGURES)]
        made[f"{whose} launches"] = len(part) - len(bad), len(part)
        kernels, bad_kernels = ({n.partition(".")[0] for n in group} for group in (part, bad))
        made[f"{whose} kernels"] = len(kernels) - len(bad_kernels), len(kernels)
    for figure in _FIGURES:
        made[f"all launches, {figure} alone"] = len(names) - sum(figure in f for f in off.values()), len(names)
    return made


def main() -> None:
    """Print what is off, as the list of the test has it, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    names = args.names or list(counters())
    off = {}
    with ProcessPoolExecutor(args.jobs) as pool:
        for name, found in zip(names, pool.map(wrong, names), strict=True):
            if found:
                off[name] = list(found)
                print(
                    f'    "{name}": "{" ".join(found)}",', "#", {k: round(v, 2) for k, v in found.items()}, flush=True
                )
    for what, (right, all_of_them) in shares(off, names).items():
        print(f"{what}: {right} of {all_of_them} right, {100 * right / max(1, all_of_them):.1f} %")


if __name__ == "__main__":
    main()
