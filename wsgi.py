"""The application that gunicorn loads."""

from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.logs import configure_logs, log_fatal_errors, log_start
from ussd_server.settings import read_settings
from ussd_server.spans import export_spans

settings = read_settings()
configure_logs(settings.log_level, settings.log_file)
log_fatal_errors()
log_start("web")
if settings.exports_spans:
    export_spans("web")
services = build_services(settings)
services.timekeeper.start()
app = create_app(services)
