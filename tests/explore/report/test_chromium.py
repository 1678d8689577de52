"""What a test run without a browser says at its end."""

import pytest

from tests.explore.report.chromium import ADVICE, REASON, summary


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], None),
        (["('x.py', 3, 'Skipped: needs verilator')"], None),
        (
            [
                f"('x.py', 3, 'Skipped: {REASON}')",
                "('y.py', 4, \"Skipped: could not import 'playwright': no\")",
            ],
            f"tests of pages in a browser were NOT run (2 skipped): {REASON}; {ADVICE}",
        ),
    ],
)
def test_the_summary_counts_tests_that_missed_a_browser(reasons, line):
    assert summary(reasons) == line
