"""The forms of machine words of sm_90, learned from nvdisasm; src/warplens/program/files/sm_90.json is such a table.

    python -m warplens.laboratory.encoding.learn OUT.json [--words WORDS.json.xz] [--only OPCODE,...] FILE...

FILEs are cubins and CUDA sources. WORDS has other words as a list of [hexadecimal word, how often it was met]. Needs
the extra `cuda`; no GPU. The words of some kernels are where it starts; what it learns holds for many more.

1. Each bit of a word is turned, and nvdisasm asked. The bit is refused, changes nothing, or changes some atoms of the
   text: a name, a modifier, a register, a number, a sign.
2. Bits that change one number by powers of two are its field. A floating-point number is one if it is written as
   bits 32 and up say. Opcodes that name a place in the code have its distance in a field of two pieces.
3. Other bits choose among texts. Those that touch the same atoms make one table: all their combinations are asked, or,
   if they are many, those met in the given words and their neighbours. If they touch a field as well, they stay fixed.
4. Bits that change nothing are free if the given words differ in them. All others are fixed.
5. That is a form, and it may be wrong: RZ, PT, 0 and 1 are often written in other ways. So such values are asked, one
   and two at a time, and random words of the form. Where it differs from nvdisasm, the fewest bits that make it differ
   are looked for, and excluded or fixed, until it differs no more. A form that still does is dropped, and one that
   is wrong for any given word.
6. Words that have no form yet are taken as the next start, those with many distinct numbers first.

All opcodes are learned at the same time, so that nvdisasm starts a few hundred times for all of its answers.
"""

import argparse
import json
import lzma
import struct
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from warplens.laboratory.encoding import nvdisasm
from warplens.laboratory.encoding.atoms import cut, number
from warplens.laboratory.encoding.check import check_random_words, check_special_values
from warplens.laboratory.encoding.draft import KEPT, Asking, Draft
from warplens.laboratory.encoding.form import learn_form
from warplens.program import Options, toolchain
from warplens.program.compile import compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.encoding import OPCODE, WORD_BYTES, Choice, Encoding, Form, Writer

_SPECIAL = ("RZ", "URZ", "PT", "UPT")
_MOST_FORMS, _MOST_FAILURES = 60, 20  # of one opcode


def learn(given: Counter[int]) -> dict[int, list[Draft]]:
    """Learn the forms of given words, by opcode: what all opcodes ask for is asked together."""
    texts = defaultdict[int, dict[int, str]](dict)
    for word, text in zip(given, nvdisasm.ask(list(given)), strict=True):
        if text is not None:
            texts[word & OPCODE][word] = text
    drafts = dict[int, list[Draft]]()
    waiting = [(opcode, learn_opcode(given, texts[opcode])) for opcode in texts]
    answers: list[list[str | None] | None] = [None] * len(waiting)  # nothing starts them
    while waiting:
        asking, wanted = [], []
        for (opcode, learner), answer in zip(waiting, answers, strict=True):
            try:
                wanted.append(next(learner) if answer is None else learner.send(answer))
                asking.append((opcode, learner))
            except StopIteration as end:
                drafts[opcode] = end.value
        nvdisasm.ask([word for words in wanted for word in words])
        waiting, answers = asking, [nvdisasm.ask(words) for words in wanted]
    return drafts


def learn_opcode(given: Counter[int], texts: dict[int, str]) -> Asking[list[Draft]]:
    """Learn the forms of all given words of one opcode."""
    drafts, left, failures = list[Draft](), dict(texts), 0
    while left and len(drafts) < _MOST_FORMS and failures < _MOST_FAILURES:
        word = max(left, key=lambda word: (richness(left[word]), given[word]))
        draft = yield from learn_checked(word, texts)
        if draft is None:
            del left[word]
            failures += 1
            continue
        drafts.append(draft)
        left = {word: text for word, text in left.items() if draft.written(word) is None}
    return drafts


def learn_checked(word: int, texts: dict[int, str]) -> Asking[Draft | None]:
    """Learn the form of a word; nothing if there is none that is written as by nvdisasm, and so for all given words."""
    draft = yield from learn_form(word, texts)
    if draft is None:
        return None
    yield from check_special_values(draft)
    settled = yield from check_random_words(draft)
    right = draft.written(word) is not None and not any(draft.differs(*given) for given in texts.items())
    return draft if settled and right else None


def richness(text: str) -> int:
    """Return how much a text shows: many numbers that differ, and none that may be special."""
    numbers = [atom for atom in cut(text) if number(atom)]
    return len(set(numbers)) - 2 * sum(atom in _SPECIAL for atom in numbers) - 3 * ("@" in text)


def as_encoding(drafts: dict[int, list[Draft]]) -> Encoding:
    """Return the forms as the front end reads them: equal tables are one."""
    tables = dict[tuple[str | None, ...], int]()

    def shared(draft: Draft) -> Form:
        def renumbered(part: Choice) -> Choice:
            return Choice(part.bits, tables.setdefault(tuple(draft.tables[part.table]), len(tables)))

        return draft.form([renumbered(part) if isinstance(part, Choice) else part for part in draft.parts])

    named = {f"{opcode:03x}": [shared(draft) for draft in drafts[opcode]] for opcode in sorted(drafts)}
    forms = {opcode: msgspec.Raw(msgspec.json.encode(forms)) for opcode, forms in named.items() if forms}
    relative = [f"{opcode:03x}" for opcode in sorted(nvdisasm.RELATIVE)]
    return Encoding(toolchain.found("nvdisasm").version, relative, [list(table) for table in tables], forms)


def words_of(file: Path) -> list[int]:
    """Return the machine words of all kernels of a cubin or a CUDA source."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_file(file, Options("sm_90"), Path(folder)).cubin if file.suffix == ".cu" else file
        cubin = parse_cubin(compiled.read_bytes(), str(file))
    code = b"".join(cubin.content(f".text.{kernel}") for kernel in cubin.kernels())
    return [low | high << 64 for low, high in struct.iter_unpack("<QQ", code)]


def report(encoding: Encoding, given: Counter[int]) -> None:
    """Print how many of the given words are written, after a look that they are as by nvdisasm."""
    writer, known = Writer(encoding), Counter[int]()
    for word, theirs in zip(given, nvdisasm.ask(list(given)), strict=True):
        ours = writer.text(word, -WORD_BYTES)  # so that a place is the distance to it
        if ours is not None:
            known[word] = given[word]
            if theirs is None or ours != theirs.replace("+0x0]", "]"):
                raise SystemExit(f"{word:032x} is written as {ours!r}, not {theirs!r}")
    print(f"{len(known)} of {len(given)} distinct words, {known.total()} of {given.total()} met")


def main() -> None:
    """Learn from files and lists of words, and write what was learned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--words", type=Path, help="other words: [hexadecimal word, count] in .json.xz")
    parser.add_argument("--only", help="opcodes in hexadecimal, with commas between")
    arguments = parser.parse_intermixed_args()
    given = Counter[int]()
    for file in arguments.files:
        given.update(word & KEPT for word in words_of(file))
    for word, count in json.loads(lzma.decompress(arguments.words.read_bytes())) if arguments.words else []:
        given[int(word, 16) & KEPT] += count
    if arguments.only:
        opcodes = {int(opcode, 16) for opcode in arguments.only.split(",")}
        given = Counter({word: count for word, count in given.items() if word & OPCODE in opcodes})
    encoding = as_encoding(learn(given))
    arguments.out.write_bytes(msgspec.json.encode(encoding))
    report(encoding, given)


if __name__ == "__main__":
    main()
