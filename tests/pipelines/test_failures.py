"""What is told of several failures is the first of them."""

from pipelines.failures import cause_of


def test_the_cause_is_found_however_deep_it_lies() -> None:
    first, second = ValueError("first"), KeyError("second")
    assert cause_of(ExceptionGroup("", [first, second])) is first
    assert cause_of(ExceptionGroup("", [ExceptionGroup("", [first]), second])) is first
