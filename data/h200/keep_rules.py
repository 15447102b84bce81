"""Keep the estimates of Nsight Compute's rules for the launches that ladders of optimisations begin with.

    ncu --clock-control none --set full -o r python data/h200/run_launches.py --all-once --only NAMES --out FOLDER
    ncu -i r.ncu-rep --page details --csv | gzip > FOLDER/details.csv.gz
    python data/h200/keep_rules.py FOLDER

NAMES are the `before` of every step in src/warplens/papers/files/ladders.toml. Writes ladders/rules.json.gz: for each
launch the rules with an estimated speedup, in percent of the time saved, and whether it is of the kernel (global) or of
what the rule looks at (local).
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent / "ladders" / "rules.json.gz"


def rules(folder: Path) -> dict[str, Any]:
    """Return the rules of each launch."""
    order = json.loads((folder / "order.json").read_text())
    names = [name for name, result in order.pop("launches").items() if "error" not in result]
    made: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with gzip.open(folder / "details.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row.get("Rule Name") and row.get("Estimated Speedup"):
                made[names[int(row["ID"])]].append(
                    {
                        "rule": row["Rule Name"],
                        "kind": row["Estimated Speedup Type"],
                        "percent": float(row["Estimated Speedup"]),
                        "text": " ".join(row["Rule Description"].split())[:300],
                    }
                )
    about = {key: value for key, value in order.items() if key in ("gpu", "cuda", "driver", "date")}
    return {**about, "command": "ncu --clock-control none --set full", "launches": made}


def main() -> None:
    """Read a folder, write the file."""
    text = json.dumps(rules(Path(sys.argv[1])), separators=(",", ":"))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{OUT.name}: {OUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
