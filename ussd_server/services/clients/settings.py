"""The settings that a client has for itself: texts of receipts, and approval rules of payouts."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.services.clients.messages import ClientSettings, UpdateClientSettings
from ussd_server.services.payouts.approval.rules import ApprovalRuleService
from ussd_server.services.payouts.messages import ApprovalRule
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.messages import UpdateReceipts
from ussd_server.services.sms.receipts import ReceiptService
from ussd_server.status import Code, ServiceError


class ClientSettingsService:
    def __init__(self, runtime: Runtime) -> None:
        self._receipts = ReceiptService(runtime)
        self._rules = ApprovalRuleService(runtime)

    def get(self, context: RequestContext) -> ClientSettings:
        rules = self._rules.get(context)
        return ClientSettings(self._receipts.get(context), rules.approval_rules, rules.proposed_approval_rules)

    def update(self, request: UpdateClientSettings, context: RequestContext) -> ClientSettings:
        """Change what the request names, all of it or nothing. Raises what the services of the settings raise.

        INVALID_REQUEST for a request that names nothing.
        """
        if request.receipts is None and request.approval_rules is None:
            raise ServiceError(Code.INVALID_REQUEST, "Invalid request body: Name receipts or approval_rules.")
        with unit_of_work():
            if request.receipts is not None:
                self._receipts.update(UpdateReceipts(request.receipts), context)
            if request.approval_rules is not None:
                self._rules.set([ApprovalRule(*rule) for rule in request.approval_rules], context)
        return self.get(context)
