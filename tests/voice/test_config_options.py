"""What commands are told of a configuration."""

import argparse
from pathlib import Path

from voice.config_options import add_address_options, add_config_options, address_settings


def test_a_file_and_any_number_of_settings() -> None:
    parser = argparse.ArgumentParser()
    add_config_options(parser)
    bare = parser.parse_args([])
    assert (bare.config, bare.set) == (None, [])
    given = parser.parse_args(["--config", "a.toml", "--set", "x.y=1", "--set", "x.z=2"])
    assert (given.config, given.set) == (Path("a.toml"), ["x.y=1", "x.z=2"])


def test_an_address_goes_over_what_is_set() -> None:
    parser = argparse.ArgumentParser()
    add_address_options(parser)
    assert address_settings(parser.parse_args([])) == []
    given = parser.parse_args(["--host", "::1", "--port", "0"])
    assert address_settings(given) == ["server.host=::1", "server.port=0"]
