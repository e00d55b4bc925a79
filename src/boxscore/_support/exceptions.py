"""The error for invalid input."""


class InputError(ValueError):
    """Raised for invalid input; the message names the argument, the rule and the value."""

    __module__ = "boxscore"
