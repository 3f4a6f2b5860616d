from xml.etree import ElementTree

import pytest

from loadtest.plots import Axis, Plot, Series, cumulative


def parsed(plot: Plot):
    return ElementTree.fromstring(plot.svg())


def test_a_plot_is_well_formed_and_says_what_it_shows():
    plot = Plot("a < b", "s", "ms & more", [Series("x > y", [(0, 1), (1, 2)])], limit=(1.5, "<1"))
    root = parsed(plot)
    assert root.get("aria-label") == "a < b"
    told = [text.text for text in root.iter("text")]
    assert {"s", "ms & more", "x > y", "<1"} <= set(told)


@pytest.mark.parametrize("shape", ["line", "dots"])
def test_every_point_is_in_the_picture(shape):
    points = [(float(x), float(x**3)) for x in range(20)]
    root = parsed(Plot("p", "x", "y", [Series("a", points, shape)]))
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter("circle")]
    assert len(circles) == 20
    assert all(58 <= x <= 546 and 26 <= y <= 256 for x, y in circles)


def test_nothing_measured_is_said_so():
    assert "nothing was measured" in Plot("p", "x", "y", [Series("a", [])]).svg()
    assert "nothing was measured" in Plot("p", "x", "y").svg()


@pytest.mark.parametrize("points", [[(0.0, 0.0)], [(5.0, 7.0)], [(1.0, 3.0), (1.0, 3.0)]])
@pytest.mark.parametrize("log", [False, True])
def test_few_points_make_a_picture_too(points, log):
    root = parsed(Plot("p", "x", "y", [Series("a", points, "dots")], log=log))
    assert len(list(root.iter("circle"))) == len(points)


def test_an_axis_of_powers_puts_ten_in_the_middle_of_one_and_a_hundred():
    axis = Axis(1.0, 100.0, 0.0, 200.0, log=True)
    assert axis.at(10.0) == pytest.approx(100.0)
    assert axis.ticks() == [1, 2, 5, 10, 20, 50, 100]


def test_an_axis_that_is_short_of_powers_has_ticks_all_the_same():
    assert Axis(1_177.0, 4_300.0, 0.0, 1.0, log=True).ticks() == [2_000, 3_000, 4_000]
    assert len(Axis(300.0, 600.0, 0.0, 1.0, log=True).ticks()) >= 3


def test_ticks_are_round_and_within():
    assert Axis(0.0, 1_000.0, 0.0, 1.0).ticks() == [0, 200, 400, 600, 800, 1_000]
    assert Axis(0.0, 100.0, 0.0, 1.0).at(500.0) == 1.0


def test_shares_below():
    assert cumulative([3.0, 1.0]) == [(1.0, 50.0), (3.0, 100.0)]
