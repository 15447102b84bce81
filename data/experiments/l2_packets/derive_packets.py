"""Print the entries of the machine file that come from packets.json.gz: [packets] and [atomics.*_lines_*].

A packet is what a warp's access asks of one line. `python data/h200/derive_packets.py`
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
L2_BYTES = 16 << 20  # an array that L2 holds
SMS, WARPS = 132, 264 * 32
LINES = (1, 8, 32, 128, 512, 2048, 8192)  # that all reductions share


def table() -> dict[str, Any]:
    """Return the measurement."""
    with gzip.open(HERE / "packets.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


def packet_seconds(rows: list[dict[str, Any]], what: str, width: int, stride: int) -> float:
    """Return the seconds per packet of an access of so many bytes by each lane, so many bytes from lane to lane."""
    at = {"what": what, "width": width, "stride": stride, "bytes": L2_BYTES, "blocks": 264}
    (row,) = (r for r in rows if all(r.get(key) == value for key, value in at.items()))
    return 1e-9 / float(row["packets_per_ns"])


def packets(rows: list[dict[str, Any]]) -> dict[str, tuple[float, str]]:
    """Return the numbers of [packets], each with how it was found."""
    one, two, four = (packet_seconds(rows, "store", 4, stride) for stride in (128, 64, 32))
    sector = ((four - one) / 3 + (two - one) + (four - two) / 2) / 3
    whole = packet_seconds(rows, "store", 16, 16)
    more = sorted(
        packet_seconds(rows, "both", width, stride) - packet_seconds(rows, "store", width, stride)
        for width, stride in ((4, 128), (4, 64), (4, 32), (4, 16), (16, 128), (16, 64), (16, 32), (16, 16))
    )
    return {
        "load_request_seconds": ((more[3] + more[4]) / 2, "what loads add to stores of the same packets: median"),
        "load_reply_seconds": (packet_seconds(rows, "load", 4, 128), "loads of one sector of each line"),
        "load_sector_seconds": (packet_seconds(rows, "load", 4, 32) / 4, "loads of four sectors of each line"),
        "store_seconds": (one - sector, "stores to one sector of each line, less the sector"),
        "store_sector_seconds": ((whole - one + sector) / 4, "16-byte stores of whole lines, less the packet"),
        "partial_sector_seconds": (sector, "stores of 4 bytes to 1, 2, 4 sectors of each line: slope"),
    }


def passes(rows: list[dict[str, Any]], what: str, lines: int, clock_hz: float) -> tuple[float, str]:
    """Return atomic additions per cycle and SM, each alone in its sector, when all go to so many lines."""
    lanes = 1 if lines < 64 else 8
    words = 1 if lines == 1 else 32 * lines
    at = {"what": what, "lanes": lanes, "words": words, "blocks": 264}
    (row,) = (r for r in rows if all(r.get(key) == value for key, value in at.items()))
    return row["adds_per_ns"] * 1e9 / clock_hz / SMS, f"{lanes} lanes of a warp to {words} words"


def main() -> None:
    """Print the entries."""
    made = table()
    rows, ref = made["rows"], "data/experiments/l2_packets/packets.json.gz"
    end = f'date = "{made["date"]}" }}'
    print("[packets]")
    for key, (value, how) in packets(rows).items():
        print(f'{key} = {{ value = {value:.3g}, unit = "s", source = "measured", ref = "{ref}: {how}", {end}')
    for what, name in (("atomic", "global"), ("reduction", "global_reduce")):
        for lines in LINES:
            value, how = passes(rows, what, lines, made["clock_hz"])
            print(f"\n[atomics.{name}_lines_{lines}]")
            entry = f'{{ value = {value:.3g}, unit = "ops/cycle", source = "measured", ref = "{ref}: {how}", {end}'
            print(f"peak_ops_per_cycle_per_sm = {entry}")


if __name__ == "__main__":
    main()
