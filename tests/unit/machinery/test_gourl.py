"""URLs in rules are read as Go reads them."""

import pytest

from gpuaas.base.fielderrors import quote
from gpuaas.machinery.schema.gourl import parse_url


@pytest.mark.parametrize(
    ("text", "scheme", "hostname", "port", "path"),
    [
        ("https://h:80/a/b?c#d", "https", "h", "80", "/a/b"),
        ("HTTP://u:p@h/", "http", "h", "", "/"),
        ("http://[::1%25en0]:8080", "http", "::1%en0", "8080", ""),
        ("postgres://a:1,b:2/x", "postgres", "a:1,b", "2", "/x"),
        ("mailto:a@b", "mailto", "", "", ""),
        ("/just/a path", "", "", "", "/just/a%20path"),
        ("//h/p", "", "h", "", "/p"),
        ("http://h/%41[x]", "http", "h", "", "/%41[x]"),
        ("http://h/<", "http", "h", "", "/%3C"),
    ],
)
def test_the_parts_of_a_url(text: str, scheme: str, hostname: str, port: str, path: str) -> None:
    found = parse_url(text)
    assert (found.scheme, found.hostname, found.port, found.escaped_path) == (scheme, hostname, port, path)


def test_a_query_may_say_things_twice() -> None:
    assert parse_url("/?a=1&b&a=%32&c=%z&d;e").values() == {"a": ["1", "2"], "b": [""]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty url"),
        ("h", "invalid URI for request"),
        ("#%blah$#@", "invalid URI for request"),
        (":x", "missing protocol scheme"),
        ("a\b", "net/url: invalid control character in URL"),
        ("http://#%blah$#@", "net/url: invalid userinfo"),
        ("http://h#x", 'invalid character "#" in host name'),
        ("http://a b", 'invalid character " " in host name'),
        ("http://h:x", 'invalid port ":x" after host'),
        ("http://a:1:2", 'invalid port ":1:2" after host'),
        ("http://h/%zz", 'invalid URL escape "%zz"'),
        ("http://h%41", 'invalid URL escape "%41"'),
        ("http://[::1", "missing ']' in host"),
        ("http://[1.2.3.4]", "invalid IP-literal"),
        ("http://a[::1]", "invalid IP-literal"),
    ],
)
def test_what_is_no_url_and_why(text: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_url(text)
    assert str(refused.value) == f"parse {quote(text)}: {why}"
