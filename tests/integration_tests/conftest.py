"""What the integration tests share."""

import pytest
from travel import Agency


@pytest.fixture(params=["sync", "async"])
def path(request: pytest.FixtureRequest) -> str:
    """Which of the two paths a test takes: `invoke` or `ainvoke`, `stream` or `astream`."""
    return str(request.param)


@pytest.fixture
def agency() -> Agency:
    """A travel agency that has done nothing yet."""
    return Agency()
