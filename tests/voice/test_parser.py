"""What is said of a command line that is misspelt."""

import pytest

from voice.parser import Parser


@pytest.fixture
def parser() -> Parser:
    parser = Parser("tool")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    talk = commands.add_parser("talk")
    talk.add_argument("--demo", action="store_true")
    talk.add_argument("--format", choices=("text", "json"))
    return parser


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tlak", "tool: error: argument COMMAND: invalid choice: 'tlak'. Did you mean talk?"),
        ("talk --dmo", "tool talk: error: there is no --dmo. Did you mean --demo?"),
        ("talk --dmeo=1", "tool talk: error: there is no --dmeo. Did you mean --demo?"),
        ("talk --zzz", "there is no --zzz. Known: --demo, --format, --help, -h"),
        ("talk more words", "tool talk: error: there is nothing to be done with more words"),
        ("talk --format jsn", "argument --format: invalid choice: 'jsn'. Did you mean json?"),
    ],
)
def test_what_was_meant_is_told_with_the_usage_of_its_command(
    parser: Parser, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words.split())
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in told
    assert told.startswith("usage: tool talk" if words.startswith("talk") else "usage: tool [-h]")


def test_what_is_right_is_taken(parser: Parser) -> None:
    assert parser.parse_args(["talk", "--demo", "--format", "json"]).format == "json"
