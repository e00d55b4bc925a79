"""Everything that decides a number: the rules of a protocol, the table of protocols, the words of the rules."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.protocol.protocol import Area as Area
    from boxscore.protocol.protocol import KeypointRules as KeypointRules
    from boxscore.protocol.protocol import Protocol as Protocol

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {"protocol": "Area KeypointRules Protocol"},
)
