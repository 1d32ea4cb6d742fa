"""Measured series and systems: door-opening hands, electricity prices, temperatures, an aircraft."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass

import numpy as np

from nips26lib.data.archives import DataCorrupt, read_npz
from nips26lib.data.fetch import fetch
from nips26lib.data.tables import require


@dataclass(frozen=True)
class Demonstrations:
    """Human demonstrations, one after another; `episode` (n,) numbers them from 0.

    Observations (n, 39) and actions (n, 28) in float32, actions clipped to [−1, 1]; rewards (n,). The initial
    states of the simulator, one row an episode: `init_qpos` (e, 30), `init_qvel` (e, 30), `init_door` (e, 3).
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    episode: np.ndarray
    init_qpos: np.ndarray
    init_qvel: np.ndarray
    init_door: np.ndarray


def adroit_door() -> Demonstrations:
    """25 people's openings of a door with a simulated hand, 6,729 steps (Apache-2.0); Rajeswaran et al., arXiv
    1709.10087.
    """
    file = "optiflow/adroit_door_human_25.npz"
    arrays = read_npz(fetch(file))
    require(
        arrays, file, observations=2, actions=2, rewards=1, episode=1, init_qpos=2, init_qvel=2, init_door_body_pos=2
    )
    return Demonstrations(arrays["observations"], arrays["actions"].clip(-1, 1), arrays["rewards"],
                          arrays["episode"].astype(np.int64), arrays["init_qpos"], arrays["init_qvel"],
                          arrays["init_door_body_pos"])  # fmt: skip


def adroit_door_stand_in(seed: int = 0, episodes: int = 25, steps: int = 269) -> Demonstrations:
    """Smooth random motions (a first-order filter of noise) to which observations respond linearly, with noise."""
    draw = np.random.default_rng(seed)
    actions = np.empty((episodes, steps, 28), dtype=np.float32)
    value = np.zeros((episodes, 28))
    for step in range(steps):
        value = 0.95 * value + 0.15 * draw.standard_normal(value.shape)
        actions[:, step] = value.clip(-1, 1)
    mixing = draw.standard_normal((28, 39)) / np.sqrt(28)
    observations = np.cumsum(actions @ mixing, axis=1) * 0.05 + 0.01 * draw.standard_normal((episodes, steps, 39))
    rewards = np.broadcast_to(np.linspace(-1, 10, steps), (episodes, steps))
    flat = (episodes * steps,)
    return Demonstrations(
        observations.reshape(*flat, 39).astype(np.float32), actions.reshape(*flat, 28),
        rewards.reshape(flat).astype(np.float32), np.repeat(np.arange(episodes), steps),
        draw.standard_normal((episodes, 30)), np.zeros((episodes, 30)), draw.uniform(-0.3, 0.3, (episodes, 3)),
    )  # fmt: skip


@dataclass(frozen=True)
class Prices:
    """A day a row: `X` (n, 101) standardized features, `Y` (n, 24) hourly prices in US$/MWh, `dates` (n,) in UTC days.

    Features: yesterday's 24 log prices, today's 24 load forecasts, yesterday's and today's 24 temperatures each,
    weekend,
    holiday, daylight saving, cosine and sine of the day of the year. X·X_std + X_mean are their own units.
    """

    X: np.ndarray
    Y: np.ndarray
    X_mean: np.ndarray
    X_std: np.ndarray
    dates: np.ndarray


def pjm_prices() -> Prices:
    """2,189 days of the day-ahead market of PJM, 2011 to 2016; data of Donti, Amos and Kolter 2017 as prepared by
    Yeh et
    al., arXiv 2409.20534 (MIT); the prices are public market data.
    """
    file = "decision-conformal/pjm_storage.npz"
    arrays = read_npz(fetch(file))
    require(arrays, file, X=2, Y=2, X_mean=1, X_std=1, dates=1)
    return Prices(**{name: arrays[name] for name in ("X", "Y", "X_mean", "X_std", "dates")})


def pjm_prices_stand_in(seed: int = 0, days: int = 2189) -> Prices:
    """Prices with a daily and a yearly wave, a persistent random level, heavy-tailed noise and rare spikes;
    features made
    from them as from the real ones.
    """
    if days < 2:
        raise ValueError(f"days is {days}; it must be at least 2")
    draw = np.random.default_rng(seed)
    dates = np.datetime64("2011-01-04") + np.arange(days)
    year = 2 * np.pi * (dates - dates.astype("datetime64[Y]")).astype(float) / 365.25
    hour = 2 * np.pi * np.arange(24) / 24
    level = np.zeros(days + 1)
    for day in range(days):
        level[day + 1] = 0.8 * level[day] + 0.15 * draw.standard_normal()
    warm = 55 - 25 * np.cos(year)[:, None] - 8 * np.cos(hour) + 5 * draw.standard_normal((days, 24))
    load = 90 + 0.02 * (warm - 58) ** 2 - 12 * np.cos(hour) + 2 * draw.standard_normal((days, 24))
    log_price = 3.5 + level[1:, None] + 0.012 * (load - 95) + 0.08 * draw.standard_t(5, (days, 24))
    Y = np.exp(log_price) * (1 + (draw.random((days, 24)) < 0.004) * draw.uniform(1, 6, (days, 24)))
    weekday = (dates.astype(int) + 3) % 7
    flags = np.stack([weekday >= 5, draw.random(days) < 0.03, (year > 1.2) & (year < 5.3)], 1).astype(float)
    raw = np.hstack([np.log(np.roll(Y, 1, 0)), load, np.roll(warm, 1, 0), warm, flags, np.cos(year)[:, None],
                     np.sin(year)[:, None]])  # fmt: skip
    mean, spread = raw.mean(0), raw.std(0).clip(1e-9)
    return Prices((raw - mean) / spread, Y, mean, spread, dates.astype("datetime64[D]"))


@dataclass(frozen=True)
class Temperatures:
    """Mean temperature in °C on each of 365 days (rows) at each station (columns)."""

    stations: tuple[str, ...]
    values: np.ndarray


def canadian_temperatures() -> Temperatures:
    """35 Canadian stations, means over 1960 to 1994; from the R package fda (GPL ≥ 2), Ramsay, Hooker and Graves."""
    file = "neural-bases/canadian_weather_temperature.csv"
    with open(fetch(file), encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    try:
        values = np.array([[float(entry) for entry in row[1:]] for row in rows])
        if values.shape != (365, len(header) - 1) or not np.isfinite(values).all():
            raise ValueError(f"the table has the shape {values.shape}")
    except ValueError as error:
        raise DataCorrupt(f"{file} is no table of 365 days: {error}") from error
    return Temperatures(tuple(header[1:]), values)


def canadian_temperatures_stand_in(seed: int = 0, stations: int = 35) -> Temperatures:
    """A yearly wave of random mean, height and delay at each station, with a second harmonic and smooth noise."""
    draw = np.random.default_rng(seed)
    day = 2 * np.pi * (np.arange(365)[:, None] - 20) / 365
    mean, height = draw.normal(1, 7, stations), draw.uniform(6, 22, stations)
    values = (
        mean - height * np.cos(day - draw.normal(0, 0.1, stations)) + draw.normal(0, 0.8, stations) * np.cos(2 * day)
    )
    noise = np.cumsum(draw.normal(0, 0.12, (365, stations)), 0)
    return Temperatures(tuple(f"station {n + 1}" for n in range(stations)), values + noise - noise.mean(0))


@dataclass(frozen=True)
class LinearSystem:
    """ẋ = A x + B u, y = C x."""

    name: str
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    states: tuple[str, ...]


def x29a() -> LinearSystem:
    """The longitudinal motion of the X-29A at one flight condition: speed (ft/s), angle of attack (rad), pitch rate
    (rad/s), pitch (rad). As used in the public code of Berry-Myon/LearningNeuralNetworkObserver; names inferred from
    the numbers.
    """
    file = "nn-observer/x29a_longitudinal.json"
    try:
        content = json.loads(fetch(file).read_text(encoding="utf-8"))
        A, B, C = (np.array(content[name], dtype=np.float64) for name in "ABC")
        states = tuple(map(str, content["states"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DataCorrupt(f"{file} is no linear system: {error!r}") from error
    require({"A": A, "B": B, "C": C}, file, A=2, B=2, C=2)
    return LinearSystem("X-29A, longitudinal", A, B, C, states)


def x29a_stand_in(seed: int = 0) -> LinearSystem:
    """An aircraft with relaxed stability, of the same shape: a slow speed-and-pitch motion, one unstable fast mode."""
    draw = np.random.default_rng(seed)
    scale = 1 + 0.1 * draw.standard_normal(4)
    A = np.array([[-0.04 * scale[0], -8.0, -0.4, -32.17], [-0.001, -0.5 * scale[1], 1.0, 0.0],
                  [0.0, 3.0 * scale[2], -0.25 * scale[3], 0.0], [0.0, 0.0, 1.0, 0.0]])  # fmt: skip
    degrees = 180 / np.pi
    C = np.vstack([np.diag([1.0, degrees, degrees, degrees]), [0.007, 4.5, 0.1, 0.0]])
    B = np.array([[-0.03, -0.09, 0.005], [-0.001, -0.0013, -0.0004], [0.03, -0.006, -0.014], [0.0, 0.0, 0.0]])
    states = ("V (ft/s)", "alpha (rad)", "q (rad/s)", "theta (rad)")
    return LinearSystem("X-29A (stand-in)", A, B, C, states)
