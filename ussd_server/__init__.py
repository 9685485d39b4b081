"""The USSD and mobile-money integration server."""
