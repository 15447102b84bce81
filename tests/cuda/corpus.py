"""The corpus of kernels under tests/corpus, compiled in as few runs of the tools as there can be."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from warplens.program import nvrtc, toolchain

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.cu"))
# A hundred kernels of each kind on every architecture; the others with `make test-all`. sm_86 and sm_89 have the
# instructions of sm_80: of these only what differs most.
ALWAYS = {"async_copy", "atomics", "control", "convert", "gemm", "half_hdr", "math", "tensor", "warp"}
FEW = {"control", "tensor"}
TOGETHER = pytest.mark.xdist_group("encoding")  # of what takes both parts for sm_90: one worker compiles them


def parts(arch: str) -> tuple[list[Path], list[Path]]:
    """Return what is compiled together for an architecture: always, and the rest."""
    fitting = [source for source in CORPUS if ("sm90a" in source.stem) == arch.endswith("a")]
    always = FEW if arch in ("sm_86", "sm_89") else ALWAYS | ({"large"} if arch == "sm_90" else set()) | {"wgmma_sm90a"}
    return [s for s in fitting if s.stem in always], [s for s in fitting if s.stem not in always]


def compiled(sources: list[Path], arch: str, file: Path) -> Path:
    """Compile sources in one go, each in a namespace of its own: the tools start once for all of them."""
    file.write_bytes(_compiled(tuple(sources), arch))
    return file


@cache
def _compiled(sources: tuple[Path, ...], arch: str) -> bytes:
    head, body = list[str](), list[str]()
    for source in sources:
        rows = source.read_text().splitlines()
        head += [row for row in rows if row.startswith("#include")]
        body += [f"namespace {source.stem} {{", f'#line 1 "{source.name}"']
        body += ["" if row.startswith("#include") else row for row in rows]
        body += ["}"]
    includes = [f"-I{folder}" for folder in toolchain.wheels().headers()] if head else []
    with TemporaryDirectory(prefix="warplens-") as folder:
        nvrtc.compile_source("\n".join(head + body), "corpus.cu", arch, includes, file := Path(folder) / "corpus.cubin")
        return file.read_bytes()
