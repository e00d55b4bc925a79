"""One table has the words of rules: whoever shows a rule reads them there, and no value is without."""

import dataclasses
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import boxscore
from boxscore import Protocol
from boxscore.analysis import rule_reasons
from boxscore.analysis.known_tools import TOOLS
from boxscore.analysis.rule_reasons import RuleChange, VerdictChange, reason_of
from boxscore.protocol.comparable import comparable
from boxscore.protocol.protocol import IOU_TYPES
from boxscore.protocol.table import PROTOCOLS
from boxscore.protocol.words import IDEAS, RULES, STEPS, changed_fields, settings_in_words, value_in_words
from boxscore.report.contents import describe
from tests.support import rule_table
from tests.support.documents import generated_parts

HINTS = get_type_hints(Protocol)
FIELDS = generated_parts(rule_table.PAGE)["every field"]


def values_of(field: str) -> tuple[Any, ...]:
    """Every value that a field may have; empty for numbers, sequences and names."""
    if field == "iou_type":
        return IOU_TYPES
    if field == "group_of_weight":
        return (None, 0, 1)
    hint = HINTS[field]
    return (False, True) if hint is bool else get_args(hint) if get_origin(hint) is Literal else ()


CHOICES = [(field, value) for field in RULES for value in values_of(field)]


def with_value(field: str, value: Any) -> Protocol:
    """COCO's rules with another value in one field, and whatever else that value asks for."""
    more = {"limits": (100,)} if value == "dataset" else {}
    return Protocol.named("coco", **{field: value}, **more)


def test_the_fields_of_a_protocol_stand_by_ideas() -> None:
    """Behind its name; the class names the fields of each idea in this order, and so does the reference."""
    ordered = [name for names in IDEAS.values() for name in names]
    assert [each.name for each in dataclasses.fields(Protocol)] == ["name", *ordered]
    lines = re.findall(r"^    - (.*?): (`.*`)\.$", Protocol.__doc__ or "", flags=re.MULTILINE)
    assert {idea.lower(): tuple(names.strip("`").split("`, `")) for idea, names in lines} == IDEAS
    assert re.findall(r"^### (.*)$", FIELDS, flags=re.MULTILINE) == [idea.capitalize() for idea in IDEAS]


def test_a_protocol_is_printed_by_ideas() -> None:
    """Its title, then one line per idea."""
    title, *lines = str(Protocol.named("coco", limits=(300,), iou_type="segm")).splitlines()
    assert title == "coco segm, changed"
    assert [line.split(": ")[0] for line in lines] == [*IDEAS]
    assert lines[0] == "what is compared: masks; continuous coordinates"
    assert "; limits 300; limits apply per image and class; " in lines[2].replace(": ", "; ", 1)


def test_groups_may_have_names_of_ranges_that_other_rules_have() -> None:
    """A title and a comparison with published rules need no protocol that can't be."""
    protocol = Protocol.named("coco", areas={"any": (0, 5)}, class_groups=("small",))
    assert protocol.title == "coco, changed"
    assert any(each.startswith("areas any 0 to 5 in place of all") for each in comparable(protocol).differences)


def test_every_field_has_words_in_one_step() -> None:
    """But for its name; `extra_numbers` has words and no step, as it changes no `map`."""
    assert {*RULES} == {each.name for each in dataclasses.fields(Protocol)} - {"name"}
    listed = [name for step in STEPS for name in step.fields]
    assert sorted(listed) == sorted({*RULES} - {"extra_numbers"})
    assert len({step.name for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("field", RULES)
def test_every_value_has_words_and_no_others_have(field: str) -> None:
    """A value without words, and words without a value, are both mistakes."""
    assert {*RULES[field].choices} == {*values_of(field)}
    every = [each.words for each in RULES[field].choices.values()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(("field", "value"), CHOICES)
def test_a_value_is_told_wherever_rules_are_shown(field: str, value: Any) -> None:
    """By explain, by comparability, by the report and by the docs."""
    usual, protocol = Protocol.named("coco"), with_value(field, value)
    said = RULES[field].choices[value].words.replace("IoU", protocol.similarity)
    assert value_in_words(protocol, field) == said
    label = RULES[field].label
    assert (label, said) in [*settings_in_words(protocol)] or value == RULES[field].absent
    row = next(line for line in FIELDS.splitlines() if line.startswith(f"| `{field}` |"))
    assert f"`{value}`: {RULES[field].choices[value].words}" in row
    if getattr(usual, field) == value:
        return
    (change,) = changed_fields(usual, protocol, (field,))
    verdicts = (VerdictChange("false positive", "left out", 3),)
    reason = reason_of(RuleChange(usual, protocol, (change,), verdicts))
    assert re.fullmatch(r"[A-Z\d].*\.", reason), reason
    published = comparable(protocol)
    is_published = field == "iou_type" and value == "segm"
    assert is_published or any(said in each for each in published.differences)


def test_every_rule_that_moves_map_has_a_sentence() -> None:
    """The others, `recall_at` and `class_groups`, add numbers beside it."""
    told = {field for field, rule in RULES.items() if any(each.sentence for each in rule.choices.values())}
    assert told.isdisjoint(rule_reasons._REASONS)
    every = {name for step in STEPS for name in step.fields}
    assert every - told - {*rule_reasons._REASONS} == {"recall_at", "class_groups"}
    for field in told:
        assert all(each.sentence for each in RULES[field].choices.values())


def test_every_rule_of_every_protocol_has_words() -> None:
    """No value is shown as Python writes it."""
    for protocol in [*PROTOCOLS.values(), *(tool.protocol for tool in TOOLS.values())]:
        for field in RULES:
            said = value_in_words(protocol, field)
            assert said
            assert not set(said) & set("'_[{"), said
            assert "None" not in said


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_report_shows_the_rules_that_a_protocol_has(name: str) -> None:
    """With label and words; a rule that does not exist there is left out."""
    protocol = PROTOCOLS[name]
    shown = dict(settings_in_words(protocol))
    assert ("recall points" in shown) == protocol.uses_recall_points
    assert ("sigmas" in shown) == (protocol.iou_type == "keypoints")
    assert ("lowest score" in shown) == (protocol.min_score is not None)
    assert shown["matching rule"] == value_in_words(protocol, "matching")


def test_the_report_has_these_rows() -> None:
    """In the table of what decides its numbers."""
    truths = boxscore.Truths(image_ids=[0], labels=[1], boxes=[[0, 0, 10, 10]])
    detections = boxscore.Detections(image_ids=[0], labels=[1], scores=np.array([0.9]), boxes=[[0, 0, 10, 10]])
    result = boxscore.evaluate(detections, truths)
    rows = describe({"model": result}, {}, {})["made"]
    assert {*settings_in_words(result.protocol)} <= {*map(tuple, rows)}
