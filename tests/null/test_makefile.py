"""`make test-newest`: it says which versions it tried, also where they fail, and fails then."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MAKE = """#!/bin/sh
echo "$@"
mkdir -p build/newest/bin
printf '#!/bin/sh\\necho versions\\n' > build/newest/bin/python
chmod +x build/newest/bin/python
exit {code}
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("code", [0, 2])
def test_the_newest_versions_are_printed_whether_they_pass_or_not(code: int, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "Makefile", tmp_path)
    (tmp_path / "make").write_text(MAKE.format(code=code))
    (tmp_path / "make").chmod(0o755)
    run = ["make", "test-newest", "MAKE=./make"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    asked, versions = done.stdout.splitlines()[-2:]
    assert asked.endswith("demo test") and "EXTRAS=dev,ncu,parquet,dask" in asked
    assert versions == "versions" and done.returncode == code  # GNU make's own code for a command that failed is 2
