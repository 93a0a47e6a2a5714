"""A test that fails, for the test of a run that refuses it. pytest collects it only by name."""


def test_that_fails() -> None:
    raise AssertionError
