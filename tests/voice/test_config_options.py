"""What commands are told of a configuration."""

import argparse
from pathlib import Path

from voice.config_options import add_config_options


def test_a_file_and_any_number_of_settings() -> None:
    parser = argparse.ArgumentParser()
    add_config_options(parser)
    bare = parser.parse_args([])
    assert (bare.config, bare.set) == (None, [])
    given = parser.parse_args(["--config", "a.toml", "--set", "x.y=1", "--set", "x.z=2"])
    assert (given.config, given.set) == (Path("a.toml"), ["x.y=1", "x.z=2"])
