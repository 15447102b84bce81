"""The form of one machine word, learned by flipping its bits: which atoms of the text they change, and how."""

import re
from collections.abc import Collection
from itertools import combinations

from warplens.laboratory.encoding.atoms import Edit, cut, edits, is_float, number
from warplens.laboratory.encoding.draft import KEPT, TARGET, Asking, Draft, bits_of, part_mask, spread, write_part
from warplens.laboratory.encoding.nvdisasm import RELATIVE
from warplens.program.encoding import OPCODE, Choice, Float, Number, Part

Fields = dict[int, Number | Float]  # by the atoms that they are
Span = tuple[int, int]  # atoms, from the first to before the last
Tables = dict[Span, tuple[int, dict[int, str]]]  # the bits that choose, and the text for each value of them
Run = list[tuple[int, int]]  # powers of two and bits that stand for them

_BITS = bits_of(KEPT & ~OPCODE)
_MOST_BITS, _MOST_BITS_WITH_NUMBERS, _MOST_BITS_ASKED = 12, 7, 9  # of one table


def learn_form(word: int, given: Collection[int]) -> Asking[Draft | None]:
    """Learn the form of a word, as it seems; given ones say which bits vary. Nothing if there is none."""
    (text,) = yield [word]
    if text is None:
        return None
    atoms = cut(text)
    texts = yield [word ^ 1 << bit for bit in _BITS]
    touched = {bit: edits(atoms, cut(t)) for bit, t in zip(_BITS, texts, strict=True) if t is not None}
    fields = find_fields(word, atoms, touched)
    inside = sum(map(part_mask, fields.values()))
    outside = {bit: found for bit, found in touched.items() if not inside >> bit & 1}
    tables = yield from ask_tables(word, atoms, find_choices(outside, fields, atoms), given)
    vary = 0
    for other in given:
        vary |= other ^ word
    free = sum(1 << bit for bit, found in outside.items() if not found and vary >> bit & 1)
    return put_together(word, atoms, fields, tables, free)


def find_fields(word: int, atoms: list[str], touched: dict[int, list[Edit]]) -> Fields:
    """Return the numbers of a text that are fields of the word, and written as such."""
    found: Fields = {}
    halves = [Float(32, 16), Float(48, 16)] if sum(map(is_float, atoms)) == 2 else []
    for position, atom in enumerate(atoms):
        integer = find_number(position, atom, touched)
        reals = [*halves, Float(32, 32), Float(32, 64)] if is_float(atom) else []
        for part in [integer] if integer else reals:
            alone = all(is_only(touched.get(bit), position) for bit in bits_of(part_mask(part)))
            if alone and write_part(part, word) == atom.rstrip():
                found[position] = part
                break
    if word & OPCODE in RELATIVE and write_part(TARGET, word) == atoms[-1]:
        found = {position: part for position, part in found.items() if not part_mask(part) & part_mask(TARGET)}
        found[len(atoms) - 1] = TARGET
    return found


def is_only(found: list[Edit] | None, position: int) -> bool:
    """Return True if a bit changes one atom and nothing else, or is refused."""
    return found is None or (len(found) == 1 and found[0].of(position))


def find_number(position: int, atom: str, touched: dict[int, list[Edit]]) -> Number | None:
    """Return the field of bits that change a number by powers of two: of neighbours, or several such pieces."""
    counted = number(atom)
    if counted is None:
        return None
    kind, value = counted
    others = dict[int, int]()
    for bit, found in touched.items():
        if len(found) == 1 and found[0].of(position) and len(found[0].new) == 1:
            other = number(found[0].new[0])
            if other and other[0] == kind and abs(other[1] - value).bit_count() == 1:
                others[bit] = other[1]
    if not others:
        return None
    chain = chained(sorted((abs(other - value).bit_length() - 1, bit) for bit, other in others.items()), kind)
    pieces = [(run[0][1], len(run)) for run in chain]
    top = chain[-1][-1][1]
    return Number(kind, pieces, chain[0][0][0], kind == "0x" and min(value, others[top]) < 0)


def chained(weights: Run, kind: str) -> list[Run]:
    """Return runs of (power of two, bit) that go up together: the longest, and of immediates those that continue it."""
    runs = list[Run]()
    for power, bit in weights:
        before = next((run for run in runs if run[-1] == (power - 1, bit - 1)), None)
        if before:
            before.append((power, bit))
        else:
            runs.append([(power, bit)])
    chain = [max(runs, key=len)]
    if kind == "0x":
        for run in runs:
            if run[0][0] == chain[-1][-1][0] + 1:
                chain.append(run)
        for run in reversed(runs):
            if run[-1][0] == chain[0][0][0] - 1:
                chain.insert(0, run)
    return chain


def find_choices(outside: dict[int, list[Edit]], fields: Fields, atoms: list[str]) -> dict[int, list[Span]]:
    """Return spans of the text that bits outside of fields choose together, by these bits."""
    spans = merge_spans(outside)
    fixed = 0
    for (first, last), bits in spans.items():
        if any(first <= position < last for position in fields):
            fixed |= bits
    groups = dict[int, list[Span]]()
    for span, bits in spans.items():
        mask, mine = bits & ~fixed, [span]
        for other in [other for other in groups if other & mask]:
            mine += groups.pop(other)
            mask |= other
        if mask:
            groups[mask] = sorted(mine)

    def few(mask: int, spans: list[Span]) -> bool:
        numbers = any(number(atom) or is_float(atom) for first, last in spans for atom in atoms[first:last])
        return mask.bit_count() <= (_MOST_BITS_WITH_NUMBERS if numbers else _MOST_BITS)

    return {mask: spans for mask, spans in groups.items() if few(mask, spans)}


def merge_spans(outside: dict[int, list[Edit]]) -> dict[Span, int]:
    """Return the spans that bits change, those that overlap as one, with all their bits."""
    spans = sorted((edit.first, edit.last, 1 << bit) for bit, found in outside.items() for edit in found)
    merged = list[tuple[int, int, int]]()
    for first, last, bit in spans:
        if merged and (first < merged[-1][1] or (first, last) == merged[-1][:2]):
            start, end, bits = merged.pop()
            merged.append((start, max(end, last), bits | bit))
        else:
            merged.append((first, last, bit))
    return {(first, last): bits for first, last, bits in merged}


def ask_tables(word: int, atoms: list[str], choices: dict[int, list[Span]], given: Collection[int]) -> Asking[Tables]:
    """Ask for the texts at spans by the values of the bits that choose; return the bits and texts of each."""
    values = {mask: values_to_ask(word, mask, given) for mask in choices}
    asked = yield [word & ~mask | value for mask in choices for value in values[mask]]
    answers = iter(asked)
    tables: Tables = {}
    for mask, spans in choices.items():
        pattern, at = "", 0
        for first, last in spans:
            pattern += re.escape("".join(atoms[at:first])) + "(.*?)"
            at = last
        whole = re.compile(pattern + re.escape("".join(atoms[at:])) + r"\s*")
        tables.update((span, (mask, {})) for span in spans)
        for value in values[mask]:
            for span, text in zip(spans, groups_of(whole, next(answers)), strict=False):
                tables[span][1][value] = text
    return tables


def groups_of(pattern: re.Pattern[str], text: str | None) -> tuple[str, ...]:
    """Return the groups of a pattern in a whole text; none if it is not of that kind."""
    found = pattern.fullmatch(text) if text else None
    return found.groups() if found else ()


def values_to_ask(word: int, mask: int, given: Collection[int]) -> Collection[int]:
    """Return values of some bits: all, or those of given words and their neighbours, and with two of ours flipped."""
    bits = [1 << bit for bit in bits_of(mask)]
    if len(bits) <= _MOST_BITS_ASKED:
        return spread(mask)
    near = {other & mask for other in given} | {word & mask}
    neighbours = {value ^ bit for value in near for bit in bits}
    return near | neighbours | {word & mask ^ a ^ b for a, b in combinations(bits, 2)}


def put_together(word: int, atoms: list[str], fields: Fields, tables: Tables, free: int) -> Draft | None:
    """Return the form of fields, tables, and the text between them; nothing if they overlap."""
    parts_at = dict[Span, Part]({(position, position + 1): part for position, part in fields.items()})
    rows = list[list[str | None]]()
    for span, (mask, texts) in tables.items():
        parts_at[span] = Choice(bits_of(mask), len(rows))
        rows.append([texts.get(value) for value in spread(mask)])
    parts, at = list[Part](), 0
    for (first, last), part in sorted(parts_at.items(), key=lambda item: item[0]):
        if first < at:
            return None
        parts += ["".join(atoms[at:first]), part]
        at = last
    parts.append("".join(atoms[at:]))
    return Draft(word, [part for part in parts if part], rows, free)
