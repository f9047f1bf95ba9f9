"""A short run of the stress test: five models from eight threads."""

from stress import cases, stress


def test_eight_threads_call_five_models():
    report = stress(4000, 8, cases())
    assert report.good, str(report)
