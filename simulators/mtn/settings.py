"""The settings of the MTN stand-in."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MtnSettings:
    """The settings; every environment but `sandbox` is a live one, whose API user is given here."""

    target_environment: str = "sandbox"
    currency: str = "EUR"
    subscription_keys: Mapping[str, str] = field(
        default_factory=lambda: {name: f"{name}-key" for name in ("collection", "disbursement", "remittance")}
    )
    api_user: str = ""
    api_key: str = ""
    callback_host: str = "127.0.0.1"
    token_seconds: int = 3600

    @property
    def live(self) -> bool:
        """Whether this is a live environment, with its stricter rules."""
        return self.target_environment != "sandbox"
