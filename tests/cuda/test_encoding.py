"""Machine words written as text by what was learned of their encoding: it is what nvdisasm writes, or nothing."""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.core import processes
from warplens.laboratory.encoding import learn, nvdisasm
from warplens.program import Options, encoding, list_kernels, load_program, toolchain
from warplens.program.compile import compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.encoding import OPCODE, WORD_BYTES, UnknownTable, Writer, source_lines, writer

from .corpus import TOGETHER, compiled, parts

pytestmark = pytest.mark.cuda
EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = """
__device__ __forceinline__ float called(float x) {
  return x > 3.f ? x * 2.f : sinf(x);
}
extern "C" __global__ void before(float* p) { if (p[1] > 0) p[0] = 1; }
extern "C" __global__ void kernel(float* p, int n) {
  float s = 0;
  for (int i = 0; i < n; i++)
    s += called(p[i]) / p[threadIdx.x];
  p[threadIdx.x] = s;
}
"""
# A call of the system's: where it returns to is computed before.
PRINTS = """
#include <cstdio>
extern "C" __global__ void kernel(int n) {
  if (n > 3) printf("%d", n);
  free(malloc(n));
}
"""
HARMLESS = 0x7F1 << 105  # a control field that any instruction may have
ROW = re.compile(r"^ +/\*([0-9a-f]{4,8})\*/(.*?); +/\* 0x", re.M)
REFUSED = re.compile(r"at address 0x([0-9a-f]+)")


def by_nvdisasm(words: list[int], file: Path) -> dict[int, str]:
    """Return what nvdisasm writes for words, by their places; what it refuses is left out."""
    words, there = list(words), list(range(len(words)))
    while True:
        file.write_bytes(b"".join(struct.pack("<QQ", word & (1 << 64) - 1, word >> 64) for word in words))
        arguments = [str(toolchain.tool("nvdisasm")), "-b", "SM90", "-hex", str(file)]
        code, out, err = processes.execute(arguments, 30)
        if not code:
            found = {int(at, 16) // WORD_BYTES: text.strip() for at, text in ROW.findall(out.decode())}
            return {there[place]: text for place, text in found.items()}
        refused = {int(at, 16) // WORD_BYTES for at in REFUSED.findall(err.decode())}
        assert refused, err
        for place in refused:
            words[place] = NOP


# Some bit, and where registers, immediates, offsets and predicates are in many instructions: place and size.
FIELDS = ((0, 1), (16, 8), (24, 8), (32, 8), (64, 8), (32, 32), (40, 24), (81, 3), (87, 4))
NOP = 0x000FC00000000000_0000000000007918


def words_of(cubin: Path) -> list[int]:
    """Return the machine words of all kernels of a cubin."""
    made = parse_cubin(cubin.read_bytes(), str(cubin))
    found = list[int]()
    for name in made.kernels():
        halves = struct.unpack(f"<{len(made.content(f'.text.{name}')) // 8}Q", made.content(f".text.{name}"))
        found += [low | high << 64 for low, high in zip(halves[::2], halves[1::2], strict=True)]
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The machine words of the corpus."""
    file = tmp_path_factory.mktemp("corpus") / "c.cubin"
    return [word for sources in parts("sm_90") for word in words_of(compiled(sources, "sm_90", file))]


@TOGETHER
def test_the_corpus_is_written_as_by_nvdisasm(corpus: list[int], tmp_path: Path) -> None:
    known = writer("sm_90")
    assert known is not None
    theirs = by_nvdisasm(corpus, tmp_path / "code")
    ours = {at: known.text(word, at * WORD_BYTES) for at, word in enumerate(corpus)}
    written = {at: text for at, text in ours.items() if text is not None}
    assert {at: (text, theirs.get(at)) for at, text in written.items() if text != theirs.get(at)} == {}
    assert len(written) >= 0.995 * len(corpus)


@TOGETHER
def test_words_that_no_compiler_made_are_written_so_too_or_not_at_all(corpus: list[int], tmp_path: Path) -> None:
    """Words of the corpus with bits turned: one to three anywhere, or whole fields of registers and immediates."""
    known, chance = writer("sm_90"), random.Random(90)
    assert known is not None
    words = list[int]()
    for word in chance.choices(list(dict.fromkeys(corpus)), k=12000):
        for _ in range(chance.randint(1, 3)):
            start, size = chance.choice(FIELDS)
            start = start or chance.randint(12, 104)
            value = chance.choice((0, (1 << size) - 1, chance.getrandbits(size), 1 << chance.randrange(size)))
            word = word & ~((1 << size) - 1 << start) | value << start
        words.append(word & ~encoding.CONTROL | HARMLESS)
    theirs = by_nvdisasm(words, tmp_path / "code")
    ours = {at: known.text(word, at * WORD_BYTES) for at, word in enumerate(words)}
    wrong = {hex(words[at]): (text, theirs.get(at)) for at, text in ours.items() if text and text != theirs.get(at)}
    assert wrong == {}
    assert sum(text is not None for text in ours.values()) > len(words) / 2


def same(path: Path, kernel: str | None, patch: pytest.MonkeyPatch, options: Options | None = None) -> bool:
    """Whether a kernel is the same by its encoding, which is known, and by nvdisasm."""
    with patch.context() as without:
        without.setattr(toolchain, "run", None)
        ours = load_program(path, kernel, options)
    with patch.context() as without:
        without.setattr("warplens.program.load.writer", lambda _: None)
        theirs = load_program(path, kernel, options)
    assert [*ours.tools, toolchain.found("nvdisasm").version] == theirs.tools
    return replace(ours, tools=theirs.tools) == theirs


def test_lines_calls_labels_and_spills_are_those_of_the_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    assert same(tmp_path / "k.cu", "kernel", monkeypatch)
    (tmp_path / "p.cu").write_text(PRINTS)
    assert same(tmp_path / "p.cu", "kernel", monkeypatch)
    path, options = EXAMPLES / "today" / "limits" / "spill.cu", Options(register_limit=32)
    assert same(path, None, monkeypatch, options)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.cu")), ids=lambda path: path.stem)
def test_every_example_is_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel in list_kernels(path, Options("sm_90")):
        assert same(path, kernel, monkeypatch)


def test_what_is_not_known_is_left_to_nvdisasm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    asked = list[str]()
    run = toolchain.run

    def noted(name: str, *arguments: str | Path, **options: object) -> str:
        asked.append(name)
        return run(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(toolchain, "run", noted)
    load_program(tmp_path / "k.cu", "kernel")
    assert asked == []
    load_program(tmp_path / "k.cu", "kernel", Options("sm_80"))  # not learned
    assert asked == ["nvdisasm"]
    monkeypatch.setattr(encoding.Writer, "text", lambda *_: None)
    load_program(tmp_path / "k.cu", "kernel")
    assert asked == ["nvdisasm"] * 2


def test_code_that_is_no_code_is_not_written() -> None:
    known = writer("sm_90")
    assert known is not None
    assert known.texts(b"\xff" * 32) is None
    assert known.texts(bytes.fromhex("4d790000000000000000800300ea0f00")) == ["EXIT"]
    assert writer("sm_1") is None


def test_a_damaged_line_table_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    made = compile_file(tmp_path / "k.cu", Options("sm_90"), tmp_path)
    data = made.cubin.read_bytes()
    cubin = parse_cubin(data, "k")
    symbol, table = cubin.symbol("kernel"), cubin.sections[".debug_line"]
    assert symbol is not None and source_lines(cubin, symbol)
    for at in range(table.start, table.start + table.size):
        for value in (0, 0x7F, 0xFF):
            try:
                source_lines(parse_cubin(data[:at] + bytes([value]) + data[at + 1 :], "k"), symbol)
            except UnknownTable:
                continue


@TOGETHER
def test_two_words_teach_the_others(corpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """FADD, FFMA, HFMA2, BRA; not nvdisasm is asked, half a second each time, but what was learned from it."""
    known = writer("sm_90")
    assert known is not None
    monkeypatch.setattr(nvdisasm, "ask", lambda words: [known.text(word, -WORD_BYTES) for word in words])
    for opcode in (0x221, 0x223, 0x435, 0x823, 0x947):
        words = list(dict.fromkeys(word & ~encoding.CONTROL for word in corpus if word & OPCODE == opcode))
        learned = Writer(learn.as_encoding(learn.learn(Counter(words[:2]))))
        texts = {known.text(word, 0): learned.text(word, 0) for word in words}
        assert {theirs: ours for theirs, ours in texts.items() if ours not in (None, theirs)} == {}
        assert sum(ours is not None for ours in texts.values()) > 0.8 * len(texts) > 50


def test_nvdisasm_is_asked_for_words_without_an_address() -> None:
    words = [0x03800000_000000000000794D, 0x0800_0000000004027984, 0xFFF, 0x0383FFFF_FFFFFFFC00FC7947]
    assert nvdisasm.ask(words) == ["EXIT", "LDS R2, [R4+0x0]", None, "BRA -0x10"]
