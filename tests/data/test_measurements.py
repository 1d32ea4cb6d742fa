from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import measurements as m
from nips26lib.data.archives import DataCorrupt
from tests.data.real import mirror


def check_door(found: m.Demonstrations) -> None:
    count = len(found.rewards)
    assert found.observations.shape == (count, 39) and found.actions.shape == (count, 28)
    assert found.observations.dtype == found.actions.dtype == found.rewards.dtype == np.float32
    assert np.abs(found.actions).max() <= 1 and set(np.diff(found.episode)) <= {0, 1}
    assert found.init_qpos.shape == (25, 30) and found.init_door.shape == (25, 3)


def check_prices(found: m.Prices) -> None:
    days = len(found.dates)
    assert (
        found.X.shape == (days, 101)
        and found.Y.shape == (days, 24)
        and (np.diff(found.dates) > np.timedelta64(0)).all()
    )
    assert np.abs(found.X.mean(0)).max() < 0.2 and found.dates[0] == np.datetime64("2011-01-04")
    raw = found.X * found.X_std + found.X_mean
    assert set(np.round(raw[:, 96], 6)) == {0.0, 1.0}, "weekends"
    weekend = raw[:, 96] > 0.5
    assert 0.25 < weekend.mean() < 0.32


def check_temperatures(found: m.Temperatures) -> None:
    assert found.values.shape == (365, len(found.stations)) == (365, 35) and np.isfinite(found.values).all()
    assert (found.values[180:210].mean(0) > found.values[:30].mean(0)).all(), "July is warmer than January"


def check_aircraft(found: m.LinearSystem) -> None:
    assert (found.A.shape, found.B.shape, found.C.shape) == ((4, 4), (4, 3), (5, 4)) and len(found.states) == 4
    assert (np.linalg.eigvals(found.A).real > 0).sum() == 1, "one unstable mode"
    observability = np.vstack([found.C @ np.linalg.matrix_power(found.A, n) for n in range(4)])
    assert np.linalg.matrix_rank(observability) == 4


@mirror
def test_the_real_measurements() -> None:
    door, prices, weather, plane = m.adroit_door(), m.pjm_prices(), m.canadian_temperatures(), m.x29a()
    check_door(door)
    check_prices(prices)
    check_temperatures(weather)
    check_aircraft(plane)
    assert len(door.rewards) == 6729 and door.episode[-1] == 24
    assert len(prices.dates) == 2189 and prices.dates[-1] == np.datetime64("2016-12-31")
    assert {"Vancouver", "Resolute", "Toronto"} <= set(weather.stations)
    coldest = weather.stations[int(weather.values.mean(0).argmin())]
    assert coldest == "Resolute"
    assert sorted(np.linalg.eigvals(plane.A).real)[::3] == pytest.approx([-2.2622, 1.5113], abs=1e-3)
    # A day's first features are the logs of the prices of the day before.
    raw = prices.X * prices.X_std + prices.X_mean
    follows = np.flatnonzero(np.diff(prices.dates) == np.timedelta64(1, "D"))
    positive = follows[(prices.Y[follows] > 1).all(1)]
    assert np.median(np.abs(raw[positive + 1, :24] - np.log(prices.Y[positive]))) < 0.05


def test_the_stand_ins() -> None:
    check_door(m.adroit_door_stand_in())
    check_prices(m.pjm_prices_stand_in())
    check_temperatures(m.canadian_temperatures_stand_in())
    check_aircraft(m.x29a_stand_in())
    assert np.array_equal(m.pjm_prices_stand_in(1, 50).Y, m.pjm_prices_stand_in(1, 50).Y)
    assert not np.array_equal(m.pjm_prices_stand_in(1, 50).Y, m.pjm_prices_stand_in(2, 50).Y)
    with pytest.raises(ValueError, match="days is 1"):
        m.pjm_prices_stand_in(days=1)


def test_what_is_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    monkeypatch.setattr(m, "fetch", lambda name: path)
    path.write_text("day,A\n1,2.0\n")
    with pytest.raises(DataCorrupt, match="no table of 365 days: the table has the shape"):
        m.canadian_temperatures()
    path.write_text("day,A\n" + "1,nan\n" * 365)
    with pytest.raises(DataCorrupt, match="no table of 365 days"):
        m.canadian_temperatures()
    for content in ({}, {"A": [[1]], "B": "x", "C": [[1]], "states": []}):
        path.write_text(json.dumps(content))
        with pytest.raises(DataCorrupt, match="is no linear system"):
            m.x29a()
