"""Tests of tools of other servers against a deployed stack. They use the contract suite's client, and its environment variables."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / (os.environ.get("SHARED_DIR") or "../shared")
sys.path.insert(0, str(SHARED / "contract"))

import client


@pytest.fixture(scope="session")
def admin() -> Any:
    return client.Client(os.environ["BASE_URL"], os.environ["ADMIN_KEY"])


@pytest.fixture(scope="session")
def user() -> Any:
    return client.Client(os.environ["BASE_URL"], os.environ["USER_KEY"])


@pytest.fixture(scope="session")
def other() -> Any:
    return client.Client(os.environ["BASE_URL"], os.environ["OTHER_KEY"])


@pytest.fixture(scope="session")
def stub() -> Any:
    return client.Stub(os.environ["MODEL_STUB_URL"])
