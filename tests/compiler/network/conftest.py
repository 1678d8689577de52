"""Fixtures of the tests of compiled networks."""

from math import inf

import pytest

from vdla.compiler.network import groups


@pytest.fixture
def chains_pay(monkeypatch):
    """Let every chain take fewer cycles than its operators."""
    groups.least_cycles.cache_clear()
    monkeypatch.setattr(groups, "least_estimate", lambda task, target: inf)
    yield
    groups.least_cycles.cache_clear()
