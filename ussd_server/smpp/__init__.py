"""USSD over SMPP 3.4: the codec, the dialects of operators, and one bind to an operator."""
