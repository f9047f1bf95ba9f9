"""Files of exported programs that are broken at random harm nobody, and run nothing."""

from __future__ import annotations

from fuzz import programs

MUTANTS = 5


def test_mutants_of_programs_harm_nobody():
    found = list(programs.verdicts([(0, i) for i in range(MUTANTS)], processes=1, seconds=120))
    wrong = [
        f"{verdict.kind}: {verdict.reason} (python -m fuzz.run --pt2 --seed {seed} --first {index} --count 1)"
        for (seed, index), verdict in found
        if verdict.fails
    ]
    assert not wrong, "\n".join(wrong)
    assert {"agrees", "refused"} <= {verdict.kind for _, verdict in found}


def test_the_same_number_gives_the_same_mutant_of_a_program():
    assert programs.mutant((5, 3)) == programs.mutant((5, 3)) != programs.mutant((5, 4))
