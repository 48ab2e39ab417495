"""How pytest is told to grade by the course's own settings, whatever else stands in the checkout.

Without them a learner's pytest.ini or conftest.py would change the run, or break it, and so would a scratch file
in the checkout's folder with the name of a library.
"""

from ..paths import ROOT

OWN_SETTINGS = ("-c", str(ROOT / "pyproject.toml"), "--noconftest", "-o", "pythonpath=")
