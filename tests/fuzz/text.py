"""Entries for text, and for what counts words and labels: TfIdfVectorizer, LabelEncoder, CategoryMapper."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import ML, Graph

_WORDS = ("", "a", "b", "ab", "A b", "a b", " b ", "Grüße", "x,y,z", "12", "1.5", "a-b-a")


def _words(g: Graph, rank: tuple[int, int] = (0, 3), choices: tuple[str, ...] = _WORDS) -> str:
    """A tensor of words; no op of numbers reads it."""
    shape = [g.integer(1, 4) for _ in range(g.integer(*rank))]
    drawn = [g.one_of(choices) for _ in range(int(np.prod(shape)))]
    return g.leaf(np.array(drawn, object).reshape(shape))


def _made(g: Graph, x: str) -> str:
    """The words, or what an op makes of them."""
    if g.opset >= 20 and g.chance(0.4):
        other = g.one_of([(), g.shape(x), g.shape(x)[-1:]])
        words = np.array([g.one_of(_WORDS) for _ in range(int(np.prod(other)))], object).reshape(other)
        return g.node("StringConcat", [x, g.leaf(words)])[0]
    return x


def equal(g: Graph) -> None:
    """A comparison of words."""
    x = _made(g, _words(g))
    g.node("Equal", [x, g.leaf(np.array(g.one_of(_WORDS), object))])


def concat(g: Graph) -> None:
    """Words joined to words, each a result."""
    g.node("Identity", [_made(g, _words(g))])


def split(g: Graph) -> None:
    """The parts of words, and how many there are."""
    given = {"delimiter": g.one_of([None, "", ",", "-", " ", "ab"]), "maxsplit": g.one_of([None, 1, 2])}
    g.node("StringSplit", [_made(g, _words(g))], 2, **given)


def normalize(g: Graph) -> None:
    """Words without some of them, in one case."""
    drawn = np.array([g.one_of(_WORDS[1:5]) for _ in range(g.integer(1, 5))], object)
    words = g.leaf(drawn[None] if g.chance(0.4) else drawn)
    given: dict[str, Any] = {"locale": "C", "case_change_action": g.one_of([None, "NONE", "LOWER", "UPPER"])}
    given |= {"is_case_sensitive": g.one_of([None, 0, 1]), "stopwords": g.one_of([None, ["a"], ["ab", "A b"]])}
    g.node("StringNormalizer", [words], **given)


def full_match(g: Graph) -> None:
    pattern = g.one_of(["a.*", "[a-z]*", r"\d+(\.\d+)?", "(a|b)+", r"\w+,.*"])
    g.node("RegexFullMatch", [_made(g, _words(g))], pattern=pattern)


def words_to_labels(g: Graph) -> None:
    """A LabelEncoder of words."""
    keys = g.some(_WORDS[:8], 1)
    values = [g.integer(0, 99) for _ in keys]
    if g.opsets[ML] >= 2 and g.chance(0.5):
        labels = [float(v) for v in values]
        g.node("LabelEncoder", [_words(g)], domain=ML, keys_strings=keys, values_floats=labels, default_float=0.5)
    elif g.opsets[ML] >= 2:
        g.node("LabelEncoder", [_words(g)], domain=ML, keys_strings=keys, values_int64s=values, default_int64=-7)
    else:
        g.node("CategoryMapper", [_words(g)], domain=ML, cats_strings=keys, cats_int64s=values, default_int64=-7)


def labels_to_words(g: Graph) -> None:
    """A CategoryMapper of numbers."""
    keys = g.some(range(-3, 8), 1)
    words = [f"w{i}" for i in range(len(keys))]
    x = g.tensor(("int64",), (1, 3), where=lambda a: a.size > 0)
    g.node("CategoryMapper", [x], domain=ML, cats_int64s=keys, cats_strings=words, default_string="none")


def ngrams(g: Graph) -> None:
    """Counts of sequences of numbers or words, each of which is in the pool once."""
    longest = g.integer(1, 3)
    random = np.random.default_rng(g.random.getrandbits(64))
    pool: list[int] = []
    starts: list[int] = []
    count = 0
    for size in range(1, longest + 1):
        starts.append(len(pool))
        rows = {tuple(random.integers(0, 4, size).tolist()) for _ in range(g.integer(1, 4))}
        pool += [n for row in sorted(rows) for n in row]
        count += len(rows)
    shortest, mode = g.integer(1, longest), g.one_of(["TF", "IDF", "TFIDF"])
    given: dict[str, Any] = {"min_gram_length": shortest, "max_gram_length": longest, "ngram_counts": starts}
    given |= {"max_skip_count": g.integer(0, 3), "mode": mode, "ngram_indexes": g.some(range(count), count)}
    if mode != "TF" or g.chance(0.3):
        given["weights"] = [round(g.random.uniform(0.1, 3), 3) for _ in range(count)]
    shape = g.one_of([(g.integer(1, 12),), (g.integer(1, 3), g.integer(1, 12))])
    x = random.integers(0, 4, shape).astype(g.one_of(["int32", "int64"]))
    g.node("TfIdfVectorizer", [g.leaf(x)], pool_int64s=pool, **given)


ENTRIES: dict[str, Entry] = {
    "CategoryMapper": labels_to_words,
    "Equal of text": equal,
    "LabelEncoder of text": words_to_labels,
    "RegexFullMatch": full_match,
    "StringConcat": concat,
    "StringNormalizer": normalize,
    "StringSplit": split,
    "TfIdfVectorizer": ngrams,
}
