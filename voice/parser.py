"""The parser of all commands: what is misspelt is told with what was probably meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """Like any other, but each command tells of its own mistakes, with its own usage."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Knows all of ``args``, or ends the program: argparse would leave what a command does not
        know to the parser of the commands."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._fault(unknown))
        return parsed, []

    def _fault(self, unknown: Sequence[str]) -> str:
        option = next((word for word in unknown if word.startswith("-")), None)
        if option is None:
            return f"there is nothing to be done with {' '.join(unknown)}"
        name = option.partition("=")[0]
        return f"there is no {name}.{_nearest(name, self._option_string_actions)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = _nearest(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}.{known}")


def _nearest(name: str, known: Iterable[str]) -> str:
    from engines.nearest import nearest  # only now, so that help comes at once

    return nearest(name, known)
