"""Predict when a satellite passes over a place: it rises, culminates and sets."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sgp4.api import SGP4_ERRORS, Satrec
from sgp4.conveniences import sat_epoch_datetime

from .geometry import Direction, Observer, earth_fixed

WINDOW_HOURS = 24
MIN_ELEVATION = 10.0  # Degrees: below, hills and haze are in the way.
STEP_MINUTES = 0.5
PRECISION_MINUTES = 0.001
BELOW_EVERY_HORIZON = Direction(0.0, -90.0)


class PropagationError(Exception):
    """The elements describe no orbit that sgp4 can follow."""


@dataclass(frozen=True)
class PredictedPass:
    """A stretch of time during which the satellite is up; directions in degrees."""

    rise_at: datetime
    culmination_at: datetime
    set_at: datetime
    rise_azimuth: float
    set_azimuth: float
    max_elevation: float


class Orbit:
    """The orbit that two lines of elements describe; time is minutes since epoch."""

    def __init__(self, line1, line2):
        self.satrec = Satrec.twoline2rv(line1, line2)
        self.epoch = sat_epoch_datetime(self.satrec)
        self.minutes = self._minutes_until_decay()
        if not self.minutes:
            error, _, _ = self.satrec.sgp4_tsince(0.0)
            reason = SGP4_ERRORS.get(error, f"sgp4 error {error}")
            raise PropagationError(f"These elements describe no orbit: {reason}.")

    @property
    def has_decayed(self):
        """Tell whether the satellite falls down before the window ends."""
        return self.minutes < WINDOW_HOURS * 60

    def direction_from(self, observer, minutes):
        """Return the direction in which the observer sees the satellite."""
        error, position, _ = self.satrec.sgp4_tsince(minutes)
        if error:
            return BELOW_EVERY_HORIZON
        epoch = self.satrec.jdsatepoch + self.satrec.jdsatepochF
        return observer.direction_of(earth_fixed(position, epoch + minutes / 1440))

    def _minutes_until_decay(self):
        # What sgp4 says after its first error is no longer an orbit, even where
        # it reports no error again, as it does for the decaying SL-14 DEB.
        for minute in range(WINDOW_HOURS * 60 + 1):
            error, _, _ = self.satrec.sgp4_tsince(float(minute))
            if error:
                return max(minute - 1, 0)
        return WINDOW_HOURS * 60


def predict_passes(orbit: Orbit, observer: Observer) -> list[PredictedPass]:
    """Return the passes in the window after the epoch, cut off where it ends."""

    def elevation(minute):
        return orbit.direction_from(observer, minute).elevation

    samples = _with_peaks(elevation, _samples(elevation, orbit.minutes))
    return [
        _describe(orbit, observer, *times)
        for times in _times_above(elevation, samples, MIN_ELEVATION)
    ]


def _samples(elevation, duration):
    steps = round(duration / STEP_MINUTES)
    minutes = (step * STEP_MINUTES for step in range(steps + 1))
    return [(minute, elevation(minute)) for minute in minutes]


def _with_peaks(elevation, samples):
    # A low pass may rise and set between two samples, but its peak does not escape.
    peaks = [
        _peak(elevation, before[0], after[0])
        for before, here, after in zip(
            samples[:-2], samples[1:-1], samples[2:], strict=True
        )
        if before[1] <= here[1] >= after[1]
    ]
    return sorted({*samples, *peaks})


def _times_above(elevation, samples, mask):
    """Yield rise, culmination and set of every stretch above the mask."""
    is_up = [height >= mask for _, height in samples]
    for up, stretch in groupby(range(len(samples)), key=is_up.__getitem__):
        if up:
            first, *_, last = [*stretch] * 2  # Twice, as it may be one sample long.
            before, after = max(first - 1, 0), min(last + 1, len(samples) - 1)
            yield (
                _crossing(elevation, mask, samples[before][0], samples[first][0]),
                max(samples[first : last + 1], key=lambda sample: sample[1])[0],
                _crossing(elevation, mask, samples[after][0], samples[last][0]),
            )


def _crossing(elevation, mask, below, above):
    """Bisect down to the first known moment above the mask."""
    while abs(above - below) > PRECISION_MINUTES:
        middle = (below + above) / 2
        if elevation(middle) >= mask:
            above = middle
        else:
            below = middle
    return above


def _peak(elevation, left, right):
    """Search the highest moment between two, by thirds; return it as a sample."""
    while right - left > PRECISION_MINUTES:
        third = (right - left) / 3
        if elevation(left + third) < elevation(right - third):
            left += third
        else:
            right -= third
    return (left, elevation(left))


def _describe(orbit, observer, rise, culmination, set_):
    def moment(minutes):
        return orbit.epoch + timedelta(minutes=minutes)

    return PredictedPass(
        rise_at=moment(rise),
        culmination_at=moment(culmination),
        set_at=moment(set_),
        rise_azimuth=orbit.direction_from(observer, rise).azimuth,
        set_azimuth=orbit.direction_from(observer, set_).azimuth,
        max_elevation=orbit.direction_from(observer, culmination).elevation,
    )
