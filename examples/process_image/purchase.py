"""The process of the example: an object whose attributes are its state. Its image is taken before each request."""

from typing import Any

from reviewqueue_client.adapters.process_image import World


class Purchase:
    def __init__(self, key: str, deadline: str) -> None:
        self.key, self.deadline = key, deadline
        self.offers: list[dict[str, str]] = []

    def __call__(self, world: World) -> Any:
        if not self.offers:  # a restored process has them
            self.offers = world.connections["catalogue"].offers()
        proposal = {"name": "issue_purchase_order", "arguments": self.offers[0]}
        question = {
            "title": f"Order {self.key}",
            "reason": "approval.action",
            "queue": "purchasing",
            "proposal": proposal,
        }
        expiry = {"deadline_in": self.deadline, "on_expiry": {"do": "resume"}}
        answer = world.ask("order", **question, **expiry)
        if not answer.approved:
            return answer.message or "not ordered"
        name, permit, shop = "issue_purchase_order", answer.permit, world.connections["catalogue"]

        def issue(call: dict[str, Any]) -> Any:
            return shop.order(self.key, call)

        return world.run.effect(f"order:{self.key}", issue, name=name, permit=permit, repeat="by_key")
