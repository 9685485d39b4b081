"""The settings of the Airtel stand-in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AirtelSettings:
    """The settings; `callback_url` is the one URL that the application registered, empty for none."""

    client_id: str = "airtel-client"
    client_secret: str = "airtel-secret"
    pin: str = "1234"
    country: str = "UG"
    currency: str = "UGX"
    callback_url: str = ""
