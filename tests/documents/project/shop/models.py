"""The models that the documentation's examples speak of."""

from django.db import models


class Order(models.Model):
    paid = models.BooleanField(default=False)
    settled = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"Order {self.pk}"
