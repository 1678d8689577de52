"""Fixtures of the tests of the importer."""

import pytest

from vdla.runtime.host import onnx_runtime


@pytest.fixture
def without_onnxruntime(monkeypatch):
    """Let onnxruntime be missing."""
    monkeypatch.setattr(onnx_runtime, "is_there", lambda: False)
