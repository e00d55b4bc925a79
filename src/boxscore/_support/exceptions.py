"""The error for invalid input."""


class InputError(ValueError):
    """Raised for invalid input; the message names the argument, the rule and the value.

    Args:
        rule: The rule and the value; or the whole message, without `argument` and `place`.
        argument: The name of the argument, for callers that have another name for it.
        place: The file, and the position in it, for callers that have already said it.
    """

    __module__ = "boxscore"

    def __init__(self, rule: str, *, argument: str | None = None, place: object = None) -> None:
        named = rule if argument is None else f"`{argument}` {rule}"
        super().__init__(named if place is None else f"{place}: {named}")
        self.rule, self.argument, self.place = rule, argument, None if place is None else str(place)
