"""Put results of launches among those that data/h200/kernels keeps; a launch that is there already is replaced.

    python data/h200/keep_results.py FOLDER ...

A folder has any of: times.json of `run_launches.py --time`, outputs.npz of `--small`, ncu.json.gz of reduce_ncu.py. A
launch that failed is named and left out. When, where and how each batch was measured stays in the file: the newest at
the top, those before it under `earlier`, with the names of their launches.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).resolve().parent / "kernels"


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file, compressed or not."""
    data = path.read_bytes()
    return dict(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return both, the new launches in the place of old ones of the same name."""
    launches = {name: result for name, result in new["launches"].items() if "error" not in result}
    for name in new["launches"].keys() - launches.keys():
        print(f"{name}: {new['launches'][name]['error']}", file=sys.stderr)
    head = {key: value for key, value in old.items() if key not in ("launches", "earlier")}
    before = [*old.get("earlier", []), {**head, "names": sorted(newest(old))}]
    earlier = [{**batch, "names": [name for name in batch["names"] if name not in launches]} for batch in before]
    about = {key: value for key, value in new.items() if key != "launches"}
    return {**about, "earlier": [b for b in earlier if b["names"]], "launches": {**old["launches"], **launches}}


def newest(results: dict[str, Any]) -> set[str]:
    """Return the launches of the newest batch: those that no earlier one names."""
    return set(results["launches"]) - {name for batch in results.get("earlier", []) for name in batch["names"]}


def keep_json(source: Path, target: Path) -> None:
    """Merge a file of results into the kept one, a launch per line."""
    new = read(source)
    both = merged(read(target), new) if target.exists() else new
    head = json.dumps({key: value for key, value in both.items() if key != "launches"})
    launches = both["launches"].items()
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(result, separators=(',', ':'))}" for name, result in launches)
    text = head[:-1] + ', "launches": {\n' + lines + "\n}}\n"
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{target.name}: {len(both['launches'])} launches, {target.stat().st_size / 1e3:.0f} kB")


def keep_outputs(source: Path, target: Path) -> None:
    """Merge arrays of outputs into the kept ones."""
    new = dict(np.load(source))
    launches = {key.partition("/")[0] for key in new}
    old = dict(np.load(target)) if target.exists() else {}
    both = {key: value for key, value in old.items() if key.partition("/")[0] not in launches} | new
    np.savez_compressed(target, **both)
    print(f"{target.name}: {len(both)} arrays, {target.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """Merge what the folders have."""
    for folder in map(Path, sys.argv[1:]):
        for name, target in (("times.json", "times.json.gz"), ("ncu.json.gz", "ncu.json.gz")):
            if (folder / name).exists():
                keep_json(folder / name, KEPT / target)
        if (folder / "outputs.npz").exists():
            keep_outputs(folder / "outputs.npz", KEPT / "outputs.npz")


if __name__ == "__main__":
    main()
