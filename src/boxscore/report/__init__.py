"""Results for readers: tables, charts, pictures, HTML, loggers, the live page."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.report.pictures import Picture as Picture
    from boxscore.report.pictures import draw as draw

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "pictures": "Picture draw",
    },
)
