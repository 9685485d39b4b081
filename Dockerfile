# The image of web processes, workers and commands: docs/INSTALL.md.
FROM python:3.13-slim-bookworm AS build
# gunicorn's parser in C (the extra `fast`) comes as source.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY README.md pyproject.toml setup.cfg setup.py wsgi.py deploy/requirements.txt deploy/requirements-fast.txt ./
COPY schemas schemas
COPY simulators simulators
COPY ussd_server ussd_server
# Every file is the one that was tested: its hash stands in the list. Nothing else is fetched, also not to build.
RUN python -m venv /opt/ussd-server \
    && /opt/ussd-server/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements.txt \
    && /opt/ussd-server/bin/pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements-fast.txt \
    && /opt/ussd-server/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --home-dir /var/lib/ussd-server --create-home --shell /usr/sbin/nologin ussd
COPY --from=build /opt/ussd-server /opt/ussd-server
COPY --chmod=755 deploy/container-start /usr/local/bin/container-start
ENV PATH=/opt/ussd-server/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_MMAP_THRESHOLD_=1048576 \
    USSD_ENV=production \
    USSD_DATA_DIR=/var/lib/ussd-server \
    USSD_BIND=0.0.0.0:8000
USER 10001:10001
WORKDIR /var/lib/ussd-server
VOLUME /var/lib/ussd-server
EXPOSE 8000
ENTRYPOINT ["container-start"]
CMD ["gunicorn", "--config", "python:ussd_server.server.gunicorn_settings"]
