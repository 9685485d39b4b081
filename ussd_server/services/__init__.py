"""The work: plain classes whose methods take a message and a call and give a message or refuse with one code."""
