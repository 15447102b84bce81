"""A form against nvdisasm: values that may be special, and random words; what is written otherwise is left out."""

import random
from collections.abc import Iterator
from itertools import combinations

from warplens.laboratory.encoding.draft import TARGET, Asking, Draft, bits_of, part_mask

_ROUNDS, _TRIED, _LOOKED_AT = 40, 300, 8  # of random words: rounds, words of each, wrong ones of these to look into
_SHORT = 8  # bits of a register's field; longer ones are immediates, with more values that may be special
_TARGET_MASK = part_mask(TARGET)


def check_special_values(draft: Draft) -> Asking[None]:
    """Ask for special values of fields, one and two at a time; exclude those that are written otherwise."""
    special = [[(field, value) for value in special_values(field)] for field in draft.fields if field != _TARGET_MASK]
    tried = [(one,) for values in special for one in values] + [
        (one, two)
        for some, others in combinations(special, 2)
        for one in some
        for two in others
        if min(len(some), len(others)) == 2 or (is_extreme(*one) and is_extreme(*two))
    ]
    sums = [(sum(field for field, _ in fields), sum(value for _, value in fields)) for fields in tried]
    words = [draft.word & ~mask | value for mask, value in sums]
    texts = yield words
    for (mask, value), word, text in zip(sums, words, texts, strict=True):
        if word != draft.word and draft.differs(word, text):
            draft.exclude(mask, value)


def special_values(field: int) -> Iterator[int]:
    """Yield values of a field that may be written in another way."""
    yield from (0, field)
    bits = bits_of(field)
    if len(bits) > _SHORT:
        yield from (1 << bit for bit in bits)
        yield from (field ^ 1 << bit for bit in bits[::5])
        yield from (field & (1 << bit) - 1 for bit in bits[2:])


def is_extreme(field: int, value: int) -> bool:
    """Return True if a value of a field is 0, 1, or all ones."""
    return value in (0, field & -field, field)


def check_random_words(draft: Draft) -> Asking[bool]:
    """Narrow a form down until random words of it are all written as by nvdisasm; return whether that came."""
    rng = random.Random(draft.word)
    for _ in range(_ROUNDS):
        words = [word for word in (any_word(draft, rng) for _ in range(_TRIED)) if draft.written(word) is not None]
        texts = yield words
        wrong = [word for word, text in zip(words, texts, strict=True) if draft.differs(word, text)]
        if not wrong:
            return True
        causes = yield from find_causes(draft, wrong[:_LOOKED_AT])
        for word, changed in causes:
            if draft.written(word) is not None:
                draft.narrow(word, changed)
    return False


def any_word(draft: Draft, rng: random.Random) -> int:
    """Return a random word of a form; many of its fields have all ones, zeros, or what they have in the form's own."""
    word = draft.word
    for field in draft.fields:
        values = (field, 0, rng.getrandbits(128) & field, word & field)
        value = any_distance(rng) if field == _TARGET_MASK else rng.choices(values, (15, 10, 65, 10))[0]
        word = word & ~field | value
    for mask, choices in draft.choices.items():
        if rng.random() < 0.5:
            word = word & ~mask | rng.choice(choices)
    return word ^ (rng.getrandbits(128) & draft.free if rng.random() < 0.5 else 0)


def any_distance(rng: random.Random) -> int:
    """Return the bits of a branch target, near or far, that is a multiple of 16 bytes away."""
    distance, value = rng.choice((-1, 1)) * rng.getrandbits(rng.choice((10, 16, 24))) * 4, 0
    for start, length in TARGET.pieces:
        value |= (distance & (1 << length) - 1) << start
        distance >>= length
    return value


def find_causes(draft: Draft, wrong: list[int]) -> Asking[list[tuple[int, list[int]]]]:
    """Return for each word a simpler one that is wrong too, and in which parts it differs from the form's own."""
    groups = [*draft.fields, *draft.choices, *(1 << bit for bit in bits_of(draft.free))]
    simpler = dict[int, list[tuple[int, list[int]]]]()
    for word in wrong:
        changed = [mask for mask in groups if (word ^ draft.word) & mask]
        sizes = (1, 2, 3) if len(changed) <= 9 else (1, 2)
        some = [list(masks) for size in sizes for masks in combinations(changed, size)]
        simpler[word] = [(draft.word & ~sum(masks) | word & sum(masks), masks) for masks in [*some, changed]]
    asked = [word for words in simpler.values() for word, _ in words]
    texts = dict(zip(asked, (yield asked), strict=True))
    return [next(x for x in words if draft.differs(x[0], texts[x[0]])) for words in simpler.values()]
