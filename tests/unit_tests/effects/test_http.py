import pytest

from langchain_tooltree import ConfigurationError
from tests.internals.hall import http_reads

READS = [
    {"url": "https://x.org?payment_method=card"},
    {"url": "https://api.example.com/v1/users?id=1&q=a%20b"},
    {"path": "/pay"},
    {"path": "users/1"},
    {"url": "http://x.org:8080/a"},
    {
        "url": "https://x.org",
        "headers": {"Accept": "application/json", "Content-Type": "x", "Authorization": "Bearer x"},
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

ADDRESSES = [
    "file:///etc/passwd",
    "ftp://x.org",
    "gopher://x.org",
    "http://169.254.169.254/latest",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:169.254.169.254]/",
    "http://metadata.google.internal/",
    "http://METADATA.google.internal./",
    "http://metadata/",
    "http://localhost:8080",
    "http://127.0.0.1",
    "http://127.1",
    "http://10.0.0.5/",
    "http://x.org@169.254.169.254/",
    "http://169.254.169.254#@x.org/",
    "http://x.org\\@169.254.169.254/",
    "http:\\\\169.254.169.254\\",
    "//169.254.169.254/",
    "http:169.254.169.254",
    "http:/169.254.169.254",
    "https://x.org/1?_method=delete",
    "https://x.org/1?%5Fmethod=delete",
    "https://x.org/1?method=delete",
    "https://x.org/1?a=b&_method=PUT",
    "https://x.org/1 HTTP/1.1\r\n\r\nDELETE /1",
    "https://x.org/%0d%0aDELETE",
    "http://\u0661\u0666\u0669.254.169.254/",
    "http://\uff11\uff16\uff19.254.169.254",
    "http://169%2e254.169.254/",
    "http://168.63.129.16/",
    "http://8.8.8.8/",
    "javascript:alert(1)",
    "localhost/admin",
    "169.254.169.254/latest",
    "http://a.localhost/",
    "http://x.org:80@10.0.0.1/",
    "http://printer.local/",
    "http://x.org:99999999/",
    " http://x.org@10.0.0.1",
    "https://x.org?u=http://169.254.169.254/",
]
"""Of files, of other protocols, of this machine and its network, of clouds' credentials, and of other methods."""

WRITES = [
    {"url": "https://x.org", "headers": {"X-HTTP-Method-Override": "DELETE"}},
    {"url": "https://x.org", "headers": {"x_http_method_override": "DELETE"}},
    {"url": "https://x.org", "headers": {"X-Method": "DELETE"}},
    {"url": "https://x.org", "headers": {"X-Method-Override": "DELETE"}},
    {"url": "https://x.org", "headers": "X-HTTP-Method: DELETE"},
    {"url": "https://x.org", "params": {"_method": "DELETE"}},
    {"url": "https://x.org", "params": {"method": "DELETE"}},
    {"url": "https://x.org", "params": [["method", "DELETE"]]},
    {"url": "https://x.org", "params": "method=delete"},
    {"url": "https://x.org", "params": '{"method": "delete"}'},
    {"url": "https://x.org", "body": "x"},
    {"url": "https://x.org", "data": {"a": 1}},
    {"url": "https://x.org", "json": [1]},
    {"url": "https://x.org", "files": ["/etc/passwd"]},
    {"url": "https://x.org", "requestBody": "x"},
    {"url": "https://x.org", "options": {"body": "x"}},
    {"url": "https://x.org", "save_to": "/x"},
    {"url": "https://x.org", "headers": {"A": "b\r\nX: y"}},
    {"host": "orders", "path": "/"},
    {"host": "10.0.0.1"},
    {"url": "https://x.org", "proxy": "http://10.0.0.1"},
    {"url": "https://x.org", "params": {"url": "http://169.254.169.254/"}},
]


@pytest.mark.parametrize("arguments", READS)
@pytest.mark.parametrize("method", ["GET", "head"])
def test_a_request_that_asks_a_public_server_is_a_read(arguments, method):
    assert http_reads()({"method": method, **arguments}) == "read"


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "TRACE", "GET ", "", None, ["GET"]])
def test_a_request_of_any_other_method_is_a_write(method):
    assert http_reads()({"method": method, "url": "https://x.org"}) == "write"
    assert http_reads("verb")({"method": "GET", "url": "https://x.org"}) == "write"


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_that_nobody_outside_could_ask_is_a_write(url):
    for name in ("url", "endpoint_uri"):
        assert http_reads()({"method": "GET", name: url}) == "write"


@pytest.mark.parametrize("arguments", WRITES)
def test_a_request_that_hands_something_over_or_means_another_method_is_a_write(arguments):
    assert http_reads()({"method": "GET", **arguments}) == "write"


def test_hosts_of_ones_own_may_be_named():
    reads = http_reads(hosts=["Orders", "127.0.0.1", "[::1]"])
    for url in ("http://orders:8080/1", "http://127.0.0.1/x", "http://[::1]:8/", "http://ORDERS./"):
        assert reads({"method": "GET", "url": url}) == "read"
    for url in ("http://other/", "http://127.0.0.2/", "http://orders@10.0.0.1/", "file://orders/"):
        assert reads({"method": "GET", "url": url}) == "write"
    assert reads({"method": "GET", "host": "orders", "path": "/1"}) == "read"


def test_one_host_is_given_as_a_list():
    with pytest.raises(
        ConfigurationError, match=r"hosts must be a list of names, got 'orders'. Pass hosts=\['orders'\]"
    ):
        http_reads(hosts="orders")
