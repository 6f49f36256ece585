"""Places visited again and again: how many, where, and how sure; home and work of whole days."""

import numpy as np
import pytest

from fl.tracking.dwelling import EstimatesOfUe, habits, home_and_work

TOLD = 1e8, 0.0, 100.0  # of the area, the persistent error and what is right
SHARE = np.array([[0.45, 0.40], [0.50, 0.05]])  # of home and work, on workdays and days off


def person(seed, sigma_m=100.0, count=300, thirds=2):
    """Estimates of somebody with home, work and further places, one in five anywhere; and these places."""
    draw = np.random.default_rng(seed)
    place = draw.uniform(500, 9500, (2 + thirds, 2))
    of_class = draw.integers(0, 48, count)
    night = np.isin(of_class % 24, [*range(8), *range(20, 24)])
    share = np.where(night[:, None], [0.9, 0, *[0.03] * thirds], [0.2, 0.5, *[0.1] * thirds])
    of = (share.cumsum(axis=1) < draw.random((count, 1))).sum(axis=1)
    known = place[np.minimum(of, len(place) - 1)]
    at = np.where((of < len(place))[:, None], known, draw.uniform(0, 1e4, (count, 2)))
    z = at + sigma_m * draw.normal(size=at.shape)
    z = np.where(draw.random((count, 1)) < 0.2, draw.uniform(0, 1e4, (count, 2)), z)
    return EstimatesOfUe(
        z, np.full(count, sigma_m), np.full(count, 0.8), of_class, np.arange(count) // 10, *TOLD
    ), place


def commuter(seed, days, sigma_m=60.0):
    """Two places named a day, home and work or somewhere else; and home and work."""
    draw = np.random.default_rng(seed)
    home, work = draw.uniform(500, 9500, (2, 2))
    z, off, day = [], [], []
    for number in range(days):
        works = number % 7 < 5 and draw.random() < 0.85
        sleeps = draw.random() < 0.95
        for place, there in ((home, sleeps), (work, works)):
            right = there and draw.random() < 0.9
            z.append(place + sigma_m * draw.normal(size=2) if right else draw.uniform(0, 1e4, 2))
            off.append(int(number % 7 >= 5))
            day.append(number)
    return (
        EstimatesOfUe(np.array(z), np.full(len(z), sigma_m), np.full(len(z), 0.9), np.array(off), np.array(day), *TOLD),
        home,
        work,
    )


class TestHabits:
    @pytest.mark.parametrize("sigma_m", [50.0, 300.0])
    def test_stated_is_right(self, sigma_m):
        """Of 30 people with two further places: about so many are found, as often right as stated."""
        right, stated = [], []
        for seed in range(30):
            said, place = person(seed, sigma_m)
            found = habits(said, place[:2], 48, 5)
            away = np.linalg.norm(found.place_m[:, None] - place[2:], axis=2)
            right.extend(away.min(axis=1) <= 100)
            stated.extend(found.probability)
        assert 50 <= len(right) <= 70
        assert np.mean(stated) == pytest.approx(np.mean(right), abs=0.08)

    def test_estimates_that_are_seldom_right_may_all_be_of_one_place(self):
        """More estimates lie at a place than are right by their errors: shares stay shares."""
        draw = np.random.default_rng(0)
        z = draw.normal(0, 50.0, (60, 2)) + 5000.0
        z[::12] += 3000.0
        said = EstimatesOfUe(
            z, np.full(60, 50.0), np.where(np.arange(60) % 4, 0.1, 0.95), np.zeros(60, int), np.arange(60), *TOLD
        )
        found = habits(said, np.zeros((0, 2)), 1, 3)
        assert found.place_m[0] == pytest.approx([5000.0, 5000.0], abs=30)
        assert np.isfinite(found.probability).all() and found.probability[0] > 0.9


class TestWholeDays:
    def right(self, days, count=100):
        found, right = [], []
        for seed in range(count):
            said, *places = commuter(seed, days)
            named = home_and_work(said, SHARE)
            right.append(np.linalg.norm(named.place_m - np.stack(places), axis=1) <= 100)
            found.append(named.probability)
        return np.mean(right, axis=0), np.mean(found, axis=0)

    def test_five_workdays_do_not_tell_home_from_work(self):
        right, stated = self.right(5)
        assert (stated < 0.6).all() and (right < 0.75).all()

    def test_a_weekend_does(self):
        right, stated = self.right(7)
        assert (right > 0.85).all()
        assert stated == pytest.approx(right, abs=0.08)
