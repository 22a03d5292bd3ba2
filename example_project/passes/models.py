"""Satellites, the stations that watch them, and the passes predicted for both."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction

from .elements import read_elements
from .geometry import Observer
from .prediction import Orbit


class Satellite(models.Model):
    """A satellite with its newest orbital elements."""

    catalog_number = models.PositiveIntegerField(unique=True)
    name = models.CharField(max_length=69)
    line1 = models.CharField("line 1", max_length=69)
    line2 = models.CharField("line 2", max_length=69)
    epoch = models.DateTimeField(help_text="The moment that the elements describe.")

    # The elements as they are in the database, None for a new satellite.
    _saved_elements = None

    class Meta:
        ordering = ["catalog_number"]

    def __str__(self):
        return self.name

    def save(self, *args, **kwargs):
        """Save in a transaction that includes the receivers of post_save.

        Without it Django commits the row first, and a crash before the receiver
        enqueues its job would lose the recomputation.
        """
        with transaction.atomic():
            super().save(*args, **kwargs)
        self._saved_elements = self._elements()

    @classmethod
    def from_db(cls, *args, **kwargs):
        """Remember the elements that were read, to see later whether they changed."""
        satellite = super().from_db(*args, **kwargs)
        satellite._saved_elements = satellite._elements()
        return satellite

    def clean(self):
        """Refuse lines that are not this satellite's elements; take their epoch."""
        try:
            (elements,) = read_elements(f"{self.name}\n{self.line1}\n{self.line2}")
        except ValueError as error:
            raise ValidationError(f"No two-line elements: {error}") from error
        if elements.catalog_number != self.catalog_number:
            raise ValidationError(
                f"The lines belong to satellite {elements.catalog_number}."
            )
        self.epoch = elements.epoch

    @property
    def elements_changed(self):
        """Tell whether the elements differ from those in the database."""
        return self._elements() != self._saved_elements

    def orbit(self):
        """Return the orbit that the elements describe."""
        return Orbit(self.line1, self.line2)

    def _elements(self):
        # __dict__, because reading a deferred field would query the database.
        return self.__dict__.get("line1"), self.__dict__.get("line2")


class GroundStationManager(models.Manager):
    """Find stations by name, so that fixtures need no primary keys."""

    def get_by_natural_key(self, name):
        """Return the station of that name."""
        return self.get(name=name)


class GroundStation(models.Model):
    """A place from which satellites are watched."""

    name = models.CharField(max_length=100, unique=True)
    latitude = models.FloatField(
        help_text="Degrees, north is positive.",
        validators=[MinValueValidator(-90), MaxValueValidator(90)],
    )
    longitude = models.FloatField(
        help_text="Degrees, east is positive.",
        validators=[MinValueValidator(-180), MaxValueValidator(180)],
    )
    altitude = models.FloatField(
        default=0,
        help_text="Metres above the ellipsoid.",
        validators=[MinValueValidator(-500), MaxValueValidator(9000)],
    )

    objects = GroundStationManager()

    class Meta:
        ordering = ["name"]

    def __str__(self):
        return self.name

    def save(self, *args, **kwargs):
        """Save in a transaction that includes the receivers of post_save."""
        with transaction.atomic():
            super().save(*args, **kwargs)

    def natural_key(self):
        """Return what identifies the station in fixtures."""
        return (self.name,)

    def observer(self):
        """Return an observer at this place."""
        return Observer(self.latitude, self.longitude, self.altitude)


class Notice(models.Model):
    """What a station was told last of a satellite: how old its elements are."""

    station = models.ForeignKey(GroundStation, models.CASCADE, related_name="notices")
    satellite = models.ForeignKey(Satellite, models.CASCADE, related_name="notices")
    epoch = models.DateTimeField()
    event = models.BigIntegerField(help_text="The id of the event behind it.")

    class Meta:
        ordering = ["station", "satellite"]
        constraints = [
            models.UniqueConstraint(
                fields=["station", "satellite"], name="passes_notice_once"
            ),
        ]

    def __str__(self):
        return f"{self.station}: {self.satellite}"


class Pass(models.Model):
    """One flight of a satellite over a station, from rising to setting."""

    satellite = models.ForeignKey(Satellite, models.CASCADE, related_name="passes")
    station = models.ForeignKey(GroundStation, models.CASCADE, related_name="passes")
    rise_at = models.DateTimeField()
    culmination_at = models.DateTimeField()
    set_at = models.DateTimeField()
    rise_azimuth = models.FloatField()
    set_azimuth = models.FloatField()
    max_elevation = models.FloatField()

    class Meta:
        ordering = ["rise_at"]
        verbose_name_plural = "passes"
        constraints = [
            models.UniqueConstraint(
                fields=["satellite", "station", "rise_at"], name="passes_pass_once"
            ),
        ]

    def __str__(self):
        return f"{self.satellite} over {self.station} at {self.rise_at:%Y-%m-%d %H:%M}"

    @property
    def duration(self):
        """Return how long the satellite is up, as hours:minutes:seconds."""
        minutes, seconds = divmod(
            round((self.set_at - self.rise_at).total_seconds()), 60
        )
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
