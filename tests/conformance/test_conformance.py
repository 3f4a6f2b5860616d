"""Clients that people already have connect unchanged: each of them, at all that it can do here."""

from collections.abc import Iterator, Mapping

import pytest

from loadtest.peers.environments import cache
from tests.conformance.environments import CLIENTS, StockClient
from tests.conformance.run import results_of, served

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[Mapping[str, str]]:
    with served() as variables:
        yield variables


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_stock_client_does_all_it_can(
    client: StockClient, server: Mapping[str, str]
) -> None:
    installed = client.installed(cache())
    results = [result async for result in results_of(installed, server)]
    assert [result for result in results if not result.passed] == []
    assert [result.step for result in results] != []
    assert {result.step for result in results} == set(client.steps)
