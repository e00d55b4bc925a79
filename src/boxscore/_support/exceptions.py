"""The one error that bad input raises."""


class InputError(ValueError):
    """What the caller passed can't be right; the message names the argument, the rule and what came."""

    __module__ = "boxscore"
