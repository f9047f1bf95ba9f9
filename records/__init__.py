"""What tuning has measured and found, as plain data and in files: trials, and the schedules that won.

``trial.py`` has the rows, ``database.py`` the file that they are kept in, ``lookup.py`` what a compilation takes of it.
"""

from .lookup import find_winners, user_file
from .trial import ERRORS, Trial, Winner, target_key
from .tuned import RecordsChoice, TunedSchedules

__all__ = [
    "ERRORS",
    "RecordsChoice",
    "Trial",
    "TunedSchedules",
    "Winner",
    "find_winners",
    "target_key",
    "user_file",
]
