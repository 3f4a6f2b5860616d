"""What was meant by a name that is not known."""

from engines.nearest import nearest


def test_the_likest_name_is_named_with_where_it_is():
    assert nearest("prot", ["host", "port"], "server.") == " Did you mean server.port?"


def test_where_none_is_like_it_all_are_told():
    assert nearest("zzz", ["port", "host"]) == " Known: host, port"
    assert nearest("zzz", ["port"], cutoff=0.0) == " Did you mean port?"
