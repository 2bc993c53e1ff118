"""The product's addresses, and `/plain`: what one Django view and one insert cost on this server."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import models
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from reviewqueue.urls import handler400, handler403, handler404, handler500
from reviewqueue.urls import urlpatterns as of_the_product

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]


class PlainRow(models.Model):
    """A row of the floors; its table belongs to the benchmark's database alone."""

    body = models.TextField()

    class Meta:
        app_label = "benchmarks"
        db_table = "plain_row"
        managed = False

    def __str__(self) -> str:
        return str(self.pk)


@csrf_exempt
@login_not_required
def plain(request: HttpRequest) -> JsonResponse:
    """Insert what was sent."""
    return JsonResponse({"id": PlainRow.objects.create(body=request.body.decode()).pk}, status=201)


urlpatterns = [path("plain", plain), *of_the_product]
