"""The corpus of kernels under tests/corpus, compiled in as few runs of the tools as there can be."""

from __future__ import annotations

from pathlib import Path

from warplens.frontend import nvrtc, toolchain

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.cu"))


def compiled(sources: list[Path], arch: str, file: Path) -> Path:
    """Compile sources in one go, each in a namespace of its own: the tools start once for all of them."""
    head, body = list[str](), list[str]()
    for source in sources:
        rows = source.read_text().splitlines()
        head += [row for row in rows if row.startswith("#include")]
        body += [f"namespace {source.stem} {{", f'#line 1 "{source.name}"']
        body += ["" if row.startswith("#include") else row for row in rows]
        body += ["}"]
    includes = [f"-I{folder}" for folder in toolchain.include_folders()] if head else []
    nvrtc.compile_source("\n".join(head + body), "corpus.cu", arch, includes, file)
    return file
