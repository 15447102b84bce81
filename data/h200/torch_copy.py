"""Copy, fill and sum large arrays with PyTorch: another program's DRAM rates, for torch_copy.json.

    python data/h200/torch_copy.py > data/h200/torch_copy.json

Needs PyTorch and a GPU. Each is made 20 times between two events, behind a kernel that keeps the queue waiting.
"""

import datetime
import json
import subprocess

import torch


def milliseconds(work: object) -> list[float]:
    """Return how long each of 20 calls took, sorted."""
    assert callable(work)
    work()
    times = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(1_000_000)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(round(begin.elapsed_time(end), 4))
    return sorted(times)


rows = []
for gib in (1, 2, 4):
    size = gib << 30
    a, b = (torch.zeros(size // 4, dtype=torch.float32, device="cuda") for _ in range(2))
    for what, moved, work in (
        ("copy_", 2 * size, lambda a=a, b=b: b.copy_(a)),
        ("fill_", size, lambda a=a: a.fill_(1.0)),
        ("sum", size, lambda a=a: a.sum()),
    ):
        times = milliseconds(work)
        rate = round(moved / (times[len(times) // 2] * 1e-3))
        rows.append({"what": what, "bytes": size, "moved_bytes": moved, "milliseconds": times,
                     "median_bytes_per_second": rate})  # fmt: skip
    del a, b
driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                        capture_output=True, text=True, check=True).stdout.split()[0]  # fmt: skip
head = {"gpu": torch.cuda.get_device_name(), "driver": driver, "date": str(datetime.date.today()),
        "torch": torch.__version__, "command": "python data/h200/torch_copy.py"}  # fmt: skip
print(json.dumps({**head, "rows": rows}, indent=1))
