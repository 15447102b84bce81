"""The wheel and the sdist: small, without samples, and of use outside the checkout.

Built without network and installed into an environment of its own; dependencies come from the one that tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")
pytestmark = [pytest.mark.slow, pytest.mark.cuda, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parents[2]
WHEEL_BYTES, SDIST_BYTES = 3_000_000, 4_000_000
SAMPLES = ("measured", "ncu.json", "outputs.npz", "journal")  # parts of the names of files that stay in the checkout


def _run(*command: str | Path, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    outside = {k: v for k, v in os.environ.items() if command[0] == sys.executable or not k.startswith("PYTHON")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    _run(*pip, "--wheel-dir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of an environment that has the wheel, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(_run(folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                         cwd=folder).stdout.strip())  # fmt: skip
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "bin/python"), "install", "--no-deps"]
    _run(*pip, "--no-index", "--no-compile", wheel, cwd=folder)
    # A folder named in a .pth file is searched, its own .pth files (the editable install) are not.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for code in (ROOT / "src/warplens").glob("*/__pycache__/*.code"):  # the same sources: not compiled once more
        kept = packages / code.relative_to(ROOT / "src")
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(code, kept)
    return folder / "bin/warplens"


def test_the_wheel_is_small_and_has_no_samples(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    data = [name for name in names if name.startswith("warplens/data/")]
    assert wheel.stat().st_size <= WHEEL_BYTES
    assert not [name for name in data if any(part in name for part in SAMPLES)]
    assert not [name for name in data if name.endswith(".py")]
    assert any("kernels/workloads" in name for name in data) and "warplens/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"warplens", f"{'-'.join(wheel.stem.split('-')[:2])}.dist-info"}


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    text = archive.read(name).decode()
    for line in ("License-Expression: Apache-2.0", "Classifier: Typing :: Typed", "Requires-Python: >=3.11"):
        assert line in text.splitlines()


def test_the_sdist_is_small_and_makes_the_wheel(wheel: Path, tmp_path: Path) -> None:
    build = "import sys, hatchling.build as b; print(b.build_sdist(sys.argv[1]))"
    _run(sys.executable, "-c", build, tmp_path, cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert sdist.stat().st_size <= SDIST_BYTES
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (sources,) = (tmp_path / "unpacked").iterdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    _run(*pip, "--wheel-dir", tmp_path, sources, cwd=tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_outside_the_checkout_it_analyzes(installed: Path, tmp_path: Path) -> None:
    for name in ("saxpy.cu", "saxpy.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    where = _run(installed.with_name("python"), "-c", "import warplens; print(warplens.__file__)", cwd=tmp_path)
    assert installed.parents[1] in Path(where.stdout.strip()).parents
    said = _run(installed, "analyze", "--launch", "saxpy.toml", "--toolkit", "wheels", cwd=tmp_path).stdout
    assert "saxpy" in said and "us" in said


@pytest.mark.parametrize(
    "arguments",
    [("validate",), ("validate", "--kernels", "--every", "40", "--models", "warplens"), ("reproduce", "--list"),
     ("reproduce", "volkov-table-3.4")],
    ids=lambda arguments: " ".join(arguments),
)  # fmt: skip
def test_outside_the_checkout_it_validates_and_reproduces(
    arguments: tuple[str, ...], installed: Path, tmp_path: Path
) -> None:
    assert _run(installed, *arguments, cwd=tmp_path).stdout.strip()


@pytest.mark.parametrize(
    "arguments",
    [("validate", "--kernels", "--stalls", "--every", "40"), ("validate", "--kernels", "--ncu", "--every", "40"),
     ("reproduce", "--gpu", "h200", "--list")],
    ids=lambda arguments: " ".join(arguments),
)  # fmt: skip
def test_what_needs_samples_says_to_run_from_a_checkout(
    arguments: tuple[str, ...], installed: Path, tmp_path: Path
) -> None:
    said = _run(installed, *arguments, cwd=tmp_path, code=2).stderr.strip().splitlines()
    assert "run from a checkout" in said[-1]
