"""Say where in the sky of a place a satellite stands."""

import math
import operator
from typing import NamedTuple

# The ellipsoid of WGS 84.
EQUATORIAL_RADIUS_KM = 6378.137
FLATTENING = 1 / 298.257223563
ECCENTRICITY_SQUARED = FLATTENING * (2 - FLATTENING)

J2000 = 2451545.0
DAYS_PER_CENTURY = 36525.0
SECONDS_PER_DEGREE = 240.0


class Direction(NamedTuple):
    """A point in the sky, in degrees; azimuth 0 is north and 90 is east."""

    azimuth: float
    elevation: float


class Observer:
    """A place on Earth that looks at the sky."""

    def __init__(self, latitude, longitude, altitude):
        """Stand at degrees of latitude and longitude, metres above the ellipsoid."""
        self.latitude = math.radians(latitude)
        self.longitude = math.radians(longitude)
        self.position = self._earth_fixed_position(altitude / 1000)

    def direction_of(self, position):
        """Return the direction in which an Earth-fixed position (km) is seen."""
        east, north, up = self._local(position)
        azimuth = math.degrees(math.atan2(east, north)) % 360
        elevation = math.degrees(math.atan2(up, math.hypot(east, north)))
        return Direction(azimuth, elevation)

    def _earth_fixed_position(self, altitude_km):
        sine, cosine = math.sin(self.latitude), math.cos(self.latitude)
        curvature = EQUATORIAL_RADIUS_KM / math.sqrt(1 - ECCENTRICITY_SQUARED * sine**2)
        return (
            (curvature + altitude_km) * cosine * math.cos(self.longitude),
            (curvature + altitude_km) * cosine * math.sin(self.longitude),
            (curvature * (1 - ECCENTRICITY_SQUARED) + altitude_km) * sine,
        )

    def _local(self, position):
        x, y, z = map(operator.sub, position, self.position)
        sine, cosine = math.sin(self.longitude), math.cos(self.longitude)
        outward = x * cosine + y * sine
        return (
            y * cosine - x * sine,
            z * math.cos(self.latitude) - outward * math.sin(self.latitude),
            z * math.sin(self.latitude) + outward * math.cos(self.latitude),
        )


def earth_fixed(position, julian_date):
    """Turn a position from sgp4's frame (TEME) into the one that rotates with Earth."""
    angle = sidereal_time(julian_date)
    x, y, z = position
    sine, cosine = math.sin(angle), math.cos(angle)
    return x * cosine + y * sine, y * cosine - x * sine, z


def sidereal_time(julian_date):
    """Return Greenwich mean sidereal time (IAU 1982) in radians.

    UTC stands in for UT1: they differ by less than a second.
    """
    centuries = (julian_date - J2000) / DAYS_PER_CENTURY
    seconds = (
        67310.54841
        + (876600 * 3600 + 8640184.812866) * centuries
        + 0.093104 * centuries**2
        - 6.2e-6 * centuries**3
    )
    return math.radians(seconds / SECONDS_PER_DEGREE % 360)
