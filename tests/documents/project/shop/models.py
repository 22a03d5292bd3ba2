"""The models that the documentation's examples speak of."""

from django.db import models


class Order(models.Model):
    paid = models.BooleanField(default=False)
    settled = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"Order {self.pk}"


class Refund(models.Model):
    order_id = models.IntegerField()
    euros = models.IntegerField()
    customer = models.EmailField()
    paid = models.IntegerField(null=True)  # null: nothing is decided

    class Meta:
        permissions = [("approve_refund", "Can approve refunds")]

    def __str__(self) -> str:
        return f"Refund of order {self.order_id}"
