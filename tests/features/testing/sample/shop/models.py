from django.db import models


class Order(models.Model):
    bank = models.CharField(max_length=10)
    is_paid = models.BooleanField(default=False)
    is_reminded = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk}"
