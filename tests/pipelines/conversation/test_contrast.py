from pipelines.conversation.contrast import EVEN_DB, HEARD_MS, OUTSTANDING_DB, Contrast
from pipelines.conversation.endpoint import WINDOW_MS

WINDOWS = HEARD_MS // WINDOW_MS


def heard(*levels_db: float) -> Contrast:
    contrast = Contrast()
    for level_db in levels_db:
        contrast.add(level_db)
    return contrast


def test_what_stays_on_one_level_is_even():
    assert heard(*[-30.0, -24.0] * WINDOWS).even


def test_a_voice_leaves_gaps():
    assert not heard(*[-20.0, -20.0, -20.0, -45.0] * WINDOWS).even


def test_a_voice_that_rises_far_over_what_was_there_stands_out_at_once():
    hush = [-60.0] * WINDOWS
    assert heard(*hush).even
    assert not heard(*hush, -60.0 + OUTSTANDING_DB).even
    assert heard(*hush, -60.0 + OUTSTANDING_DB, -60.0).even


def test_a_voice_over_a_din_stands_out_as_soon_as_it_lasts():
    din = [-30.0] * WINDOWS
    assert heard(*din, *[-30.0 + EVEN_DB] * 3).even
    assert not heard(*din, *[-30.0 + EVEN_DB] * 4).even


def test_before_two_seconds_nobody_can_tell():
    assert not heard(*[-30.0] * (WINDOWS - 1)).even
    assert heard(*[-30.0] * WINDOWS).even


def test_what_was_heard_before_that_is_forgotten():
    assert heard(*[-90.0] * WINDOWS, *[-30.0] * WINDOWS).even
