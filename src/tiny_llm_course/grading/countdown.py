"""A pytest plugin that prints one progress line in place of dots: tests run, and the estimated time left."""

import time

import pytest

EVERY = 20.0  # seconds between two lines where they cannot overwrite each other


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--takes` and `--then`."""
    group = parser.getgroup("tiny-llm")
    group.addoption("--takes", type=float, default=1.0, help="seconds that this run takes where it was measured")
    group.addoption("--then", type=float, default=0.0, help="seconds that the runs after this one take there")


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that has the terminal, not in its workers."""
    if not hasattr(config, "workerinput"):
        config.option.console_output_style = "classic"
        config.pluginmanager.register(Countdown(config), "countdown")


class Countdown:
    """Count the tests that have ended."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = self._said = time.monotonic()
        self._total = self._done = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers: store the number of tests."""
        self._total = session.testscollected

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """With workers, each of which collects all tests: store their number."""
        self._total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print nothing for a test that passed or is skipped."""
        if report.skipped or (report.passed and report.when == "call"):
            return report.outcome, "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when it has been called, or cannot be."""
        self._done += report.when == "call" or not report.passed
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        screen, now = terminal is not None and terminal.isatty, time.monotonic()
        if terminal is None or now - self._said < (1.0 if screen else EVERY):
            return
        self._said = now
        line = self.line(now - self._started)
        terminal.rewrite(line, erase=True) if screen else terminal.write_line(line)

    def line(self, elapsed: float) -> str:
        """Return `1,234 of 4,980 tests in 1 min 20 s, about 4 min left`, including the runs after this one."""
        whole = elapsed * self._total / max(self._done, 1)
        left = whole - elapsed + whole * self._config.getoption("--then") / self._config.getoption("--takes")
        return f"{self._done:,} of {self._total:,} tests in {_duration(elapsed)}, about {_duration(left)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
