"""The command without its installed script: `python -m ussd_server.cli`."""

from ussd_server.cli import main

main()
