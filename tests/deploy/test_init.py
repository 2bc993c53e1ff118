"""`manage.py init`: administrator, queue, policy and agent at once, and only on an empty installation."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from reviewqueue import permissions
from reviewqueue.operations.provisioning.first_setup import set_up
from reviewqueue.operations.provisioning.names import ProvisioningError
from runs.models import Agent, Policy, Queue

pytestmark = pytest.mark.django_db


def test_the_administrator_owns_the_agent_and_leads_the_queue() -> None:
    made = set_up("Ada@example.org", queue="purchasing", agent="buyer")
    ada = User.objects.get(username="ada@example.org")
    assert ada.check_password(made.administrator.password)
    assert (ada.is_superuser, ada.is_staff, permissions.is_operator(ada)) == (True, True, True)
    assert ada.groups.filter(pk=Agent.objects.get(slug="buyer").owner_id).exists()
    assert ada.groups.filter(pk=Queue.objects.get(slug="purchasing").leads_id).exists()
    policy = Policy.objects.filter(reason="approval.action").latest("version")
    assert (policy.queue.slug, policy.any_queue) == ("purchasing", False)
    assert made.agent_key.text.startswith("rq_")


def test_a_used_installation_and_a_wrong_name_change_nothing() -> None:
    with pytest.raises(ProvisioningError, match="not an e-mail address"):
        set_up("ada", queue="purchasing", agent="buyer")
    assert not Queue.objects.exists()
    assert not Agent.objects.exists()
    set_up("ada@example.org", queue="purchasing", agent="buyer")
    with pytest.raises(ProvisioningError, match="already"):
        set_up("bob@example.org", queue="other", agent="other")
    assert list(User.objects.values_list("username", flat=True)) == ["ada@example.org"]
