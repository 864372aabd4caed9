import pytest

from langchain_tooltree import ConfigurationError
from langchain_tooltree.effects import http_reads
from tests.unit_tests.effects.attacks import ADDRESSES, REQUESTS

READS = [
    {"url": "https://x.org?payment_method=card"},
    {"url": "https://api.example.com/v1/users?id=1&q=a%20b"},
    {"path": "/pay"},
    {"path": "users/1"},
    {"url": "http://x.org:8080/a"},
    {
        "url": "https://x.org",
        "headers": {
            "Accept": "application/json",
            "Content-Type": "x",
            "Authorization": "Bearer x",
        },
        "params": {"page": 1, "data": "x"},
        "timeout": 5,
        "json": None,
        "data": {},
    },
    {"url": "https://x.org/p?next=https://y.org/z"},
    {"path": "/items/2.5"},
    {"endpoint": "v1/users:batchGet"},
    {"url": "https://sub.x-y.co.uk/"},
    {"url": "https://x.org./"},
    {"url": "HTTPS://X.ORG/"},
]


@pytest.mark.parametrize("arguments", READS)
@pytest.mark.parametrize("method", ["GET", "head"])
def test_a_request_that_asks_a_public_server_is_a_read(arguments, method):
    assert http_reads()({"method": method, **arguments}) == "read"


@pytest.mark.parametrize(
    "method", ["POST", "OPTIONS", "TRACE", "GET ", "", None, ["GET"]]
)
def test_a_request_of_any_other_method_is_a_write(method):
    assert http_reads()({"method": method, "url": "https://x.org"}) == "write"
    assert http_reads("verb")({"method": "GET", "url": "https://x.org"}) == "write"


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_that_nobody_outside_could_ask_is_a_write(url):
    for name in ("url", "endpoint_uri"):
        assert http_reads()({"method": "GET", name: url}) == "write"


@pytest.mark.parametrize("arguments", REQUESTS)
def test_a_request_that_hands_something_over_or_means_another_method_is_a_write(
    arguments,
):
    assert http_reads()({"method": "GET", **arguments}) == "write"


def test_hosts_of_ones_own_may_be_named():
    reads = http_reads(hosts=["Orders", "127.0.0.1", "[::1]"])
    for url in (
        "http://orders:8080/1",
        "http://127.0.0.1/x",
        "http://[::1]:8/",
        "http://ORDERS./",
    ):
        assert reads({"method": "GET", "url": url}) == "read"
    for url in (
        "http://other/",
        "http://127.0.0.2/",
        "http://orders@10.0.0.1/",
        "file://orders/",
    ):
        assert reads({"method": "GET", "url": url}) == "write"


def test_one_host_is_given_as_a_list():
    with pytest.raises(
        ConfigurationError,
        match=r"hosts must be a list of names, got 'orders'. Pass hosts=\['orders'\]",
    ):
        http_reads(hosts="orders")
