"""CVAT for video: boxes in every frame between keyframes, as CVAT has them."""

from pathlib import Path

import numpy as np
import pytest

import boxscore
from tests.support.small_files import refused, write

META = """<meta><task><size>{size}</size><start_frame>{start}</start_frame><frame_filter>{step}</frame_filter><labels>
<label><name>dog</name></label><label><name>cat</name></label></labels>
<original_size><width>200</width><height>100</height></original_size></task></meta>"""
BOX = '<box frame="{}" outside="{}" occluded="0" keyframe="1" xtl="{}" ytl="{}" xbr="{}" ybr="{}"{}/>'


def box(frame: int, left: float, *, outside: int = 0, more: str = "") -> str:
    """A box of 10 x 20 in a frame."""
    return BOX.format(frame, outside, left, 5, left + 10, 25, more)


def read(
    folder: Path, *tracks: str, size: int = 10, start: int = 0, step: str = "", meta: str = META
) -> boxscore.Truths:
    """The truths of a file with these tracks."""
    text = f"<annotations><version>1.1</version>{meta.format(size=size, start=start, step=step)}"
    text += "".join(f'<track id="{i}" label="dog">{track}</track>' for i, track in enumerate(tracks)) + "</annotations>"
    return boxscore.read_truths(write(folder / "annotations.xml", text))


def lefts(truths: boxscore.Truths) -> dict[int, float]:
    """The left edge in each frame."""
    return dict(zip(truths.image_ids.tolist(), truths.boxes[:, 0].tolist(), strict=True))


def test_a_box_moves_in_a_straight_line_between_keyframes(tmp_path: Path) -> None:
    """It is gone from an `outside` shape on, comes back with the next, and stays to the end of the video."""
    truths = read(tmp_path, box(1, 10) + box(3, 20) + box(5, 40, outside=1) + box(7, 0))
    # frames 1 and 3 as they are, 2 halfway, 4 halfway to where it leaves; nothing in 0, 5, 6; from 7 on it stays
    assert lefts(truths) == {1: 10, 2: 15, 3: 20, 4: 30, 7: 0, 8: 0, 9: 0}
    assert truths.boxes.shape[1] == 4
    assert np.array_equal(truths.boxes[:, 2] - truths.boxes[:, 0], np.full(7, 10.0))
    assert truths.image_names == {frame: f"frame_{frame:06d}" for frame in range(10)}
    assert truths.image_sizes == dict.fromkeys(range(10), (200, 100))
    assert truths.names_by_label == {0: "dog", 1: "cat"}
    assert not truths.is_numbered


def test_frames_in_the_file_are_taken_as_they_are(tmp_path: Path) -> None:
    """CVAT exports every frame, rounded to hundredths; a shape with `keyframe="0"` is one, too."""
    shown = box(0, 10) + box(1, 13.33).replace('keyframe="1"', 'keyframe="0"') + box(3, 20) + box(4, 20, outside=1)
    assert lefts(read(tmp_path, shown)) == {0: 10, 1: 13.33, 2: 13.33 + (20 - 13.33) * 0.5, 3: 20}


def test_a_task_with_a_step_has_every_nth_frame(tmp_path: Path) -> None:
    """Frames keep their numbers in the video."""
    truths = read(tmp_path, box(10, 0) + box(40, 30), size=5, start=10, step="step=10")
    assert lefts(truths) == {10: 0, 20: 10, 30: 20, 40: 30, 50: 30}
    assert truths.image_names == {frame: f"frame_{frame:06d}" for frame in range(10, 60, 10)}
    refused(lambda: read(tmp_path, box(15, 0), start=10, step="step=10"), "shapes must be in frames 10, 20, …")


def test_without_meta_the_video_ends_with_its_last_shape(tmp_path: Path) -> None:
    """Nothing tells how long it is."""
    truths = read(tmp_path, box(1, 0) + box(3, 20), box(4, 7) + box(5, 7, outside=1), meta="")
    assert list(truths.image_names or ()) == [0, 1, 2, 3, 4]
    assert truths.image_ids.tolist() == [1, 2, 3, 4]


def test_tracks_share_frames(tmp_path: Path) -> None:
    """Rows are in the order of frames, then of tracks."""
    truths = read(tmp_path, box(0, 1) + box(2, 3, outside=1), box(0, 50) + box(1, 60, outside=1), size=3)
    assert truths.image_ids.tolist() == [0, 0, 1]
    assert truths.boxes[:, 0].tolist() == [1, 50, 2]


def test_a_turned_box_turns_the_shorter_way(tmp_path: Path) -> None:
    """From 350 to 10 degrees it passes 0, where it has its own bounds."""
    truths = read(tmp_path, box(0, 10, more=' rotation="350"') + box(2, 10, more=' rotation="10"'), size=3)
    np.testing.assert_allclose(truths.boxes[1], [10, 5, 20, 25], rtol=1e-12)
    assert truths.boxes[0, 0] < 10


def test_polygons_need_every_frame(tmp_path: Path) -> None:
    """CVAT exports them so; one that does not move does without."""
    polygon = '<polygon frame="{}" outside="0" keyframe="1" points="{}"/>'
    still = polygon.format(0, "1,2;5,3;2,9") + polygon.format(3, "1,2;5,3;2,9")
    truths = read(tmp_path, still, size=4)
    assert truths.boxes.tolist() == [[1, 2, 5, 9]] * 4
    moving = polygon.format(0, "1,2;5,3;2,9") + polygon.format(3, "2,2;5,3;2,9")
    refused(lambda: read(tmp_path, moving, size=4), "a polygon must have a shape in every frame")


def test_other_shapes_are_counted(tmp_path: Path) -> None:
    """As they are for images."""
    with pytest.warns(UserWarning, match="1 shape other than box and polygon left out"):
        truths = read(tmp_path, box(0, 1) + box(1, 1, outside=1), '<points frame="0" outside="0" points="1,1"/>')
    assert len(truths) == 1


@pytest.mark.parametrize(
    ("track", "message"),
    [
        (box(3, 1) + box(3, 2), "track 0 (id 0): box 1: frames of a track must be ascending; got 3 after 3"),
        (box(0, 1).replace('frame="0"', 'frame="x"'), "`frame` must be an integer; got 'x'"),
        (box(0, 1).replace('xtl="1"', 'xtl="x"'), "track 0 (id 0): box 0: must have xtl, ytl, xbr, ybr as numbers"),
        (box(0, 1, more=' rotation="inf"'), "track 0 (id 0): box 0: `rotation` must be a finite number; got 'inf'"),
        (box(0, 1) + box(10**9, 1), "must have at most 1,000,000 frames; got 1,000,000,001"),
    ],
)
def test_bad_tracks(tmp_path: Path, track: str, message: str) -> None:
    """The track and the shape."""
    refused(lambda: read(tmp_path, track), message)


def test_more_boxes_than_anyone_has_are_refused(tmp_path: Path) -> None:
    """A small file may not grow to gigabytes."""
    refused(lambda: read(tmp_path, *[box(0, 1)] * 5, size=900_000), "must have at most 2,000,000 interpolated boxes")
    refused(lambda: read(tmp_path, box(0, 1), size=10**12), "must have at most 1,000,000 frames; got 1,000,000,000,000")


def test_tracks_of_several_tasks_are_refused(tmp_path: Path) -> None:
    """A project's frames have the same numbers in each task."""
    text = '<annotations><track id="0" label="a" task_id="1"/><track id="1" label="a" task_id="2"/></annotations>'
    path = write(tmp_path / "annotations.xml", text)
    refused(lambda: boxscore.read_truths(path), "tracks must be of one task; got several")


@pytest.mark.parametrize("angle", ["inf", "nan", "-inf", "x"])
def test_an_angle_must_be_a_number(tmp_path: Path, angle: str) -> None:
    """Of images, too."""
    shape = f'<box label="c" xtl="1" ytl="1" xbr="2" ybr="2" rotation="{angle}"/>'
    text = f'<annotations><image id="0" name="a.jpg" width="9" height="9">{shape}</image></annotations>'
    path = write(tmp_path / "a.xml", text)
    refused(lambda: boxscore.read_truths(path), f"a.jpg): box 0: `rotation` must be a finite number; got '{angle}'")


def test_detections_join_by_frame(tmp_path: Path) -> None:
    """By number, or by the name of the exported image."""
    truths = read(tmp_path, box(0, 10) + box(2, 30), size=3)
    for image in ("2", "frame_000002.png", "images/frame_000002.PNG"):
        path = write(tmp_path / "d.csv", f"image,label,score,x1,y1,x2,y2\n{image},dog,0.5,30,5,40,25\n")
        assert boxscore.read_detections(path, truths).image_ids.tolist() == [2]
