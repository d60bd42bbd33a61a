from __future__ import annotations

import pytest

from course.environment import accelerator


@pytest.fixture(autouse=True)
def _torch_is_read_again():
    accelerator.read_torch.cache_clear()
    yield
    accelerator.read_torch.cache_clear()
